"""YAML files of users, by the letter: a key that is given twice is an error, where PyYAML takes the last one."""

from __future__ import annotations

from typing import Any

import yaml


def load_yaml(text: str) -> Any:
    """What a document holds: mappings, lists, strings, numbers, booleans, None.

    Raises:
        yaml.YAMLError: it is no YAML, or a key is given twice; says where.
    """
    return yaml.load(text, _OnceEach)  # a safe loader


class _OnceEach(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.MarkedYAMLError(problem=f"{key.value} is given twice", problem_mark=key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)
