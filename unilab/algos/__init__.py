"""Update rules: tensors in, tensors out."""
