"""``unilab doctor``: the machine, the env and one full cycle are looked at before hours are spent on them."""
