"""Model files: YAML that names the model of each role, with its options.

```yaml
language_model: openai:gpt-4.1
controller: {model: "openai:gpt-4.1-mini", in_flight: 16}
judge:
  model: openai:llama3.1
  base_url: http://localhost:11434/v1
  api_key_env: MY_KEY            # the name of an environment variable
test_judge: openai:gpt-4.1       # scores answers to test questions instead of the judge
embedder:
  model: sentence-transformers:BAAI/bge-small-en-v1.5
  query_prefix: "query: "
  vector_store: qdrant:http://localhost:6333
cross_encoder: cohere:rerank-v3.5
```
"""

from collections.abc import Mapping
from pathlib import Path

from ragsmith.errors import UsageError
from ragsmith.models.names import ModelName
from ragsmith.models.registry import FLAG_ROLES, ROLES, option_names, problem_with_name, problem_with_option
from ragsmith.text.files import exists, shorten
from ragsmith.text.redaction import redacted
from ragsmith.text.strict_yaml import YamlPath, YamlTree, YamlValue, read_yaml, unknown_key_message

EXAMPLE_MODELS = "in Python models by role, such as {'language_model': 'openai:MODEL'}"
"""What can be given instead of a file."""


def read_models(path: Path) -> dict[str, ModelName]:
    """Read the models of the file at ``path``, by role.

    Raises:
        YamlError: the file is malformed, or names an unknown role, model or option; the message has file and line.
    """
    if (":" in path.name or path.suffix not in (".yaml", ".yml")) and not exists(path):
        raise UsageError(
            f"{path} is no file of models: name a model by its role (--llm openai:MODEL), or {EXAMPLE_MODELS}"
        )
    tree = read_yaml(path)
    return parse_models(
        tree,
        tree.mapping(
            form="this is not a file of models: it must be 'role: model' pairs, such as language_model: openai:gpt-4o"
        ),
    )


def parse_models(
    tree: YamlTree, section: Mapping[str, YamlValue], *key_path: str, affecting_results: bool = False
) -> dict[str, ModelName]:
    """Read the models of a ``section`` of a file; ``affecting_results`` allows no other options."""
    models = {}
    for role, value in section.items():
        if role not in ROLES:
            raise tree.error((*key_path, role), unknown_key_message(role, ROLES, FLAG_ROLES.get(role)))
        models[role] = parse_model(
            tree, (*key_path, role), role, value, option_names(affecting_results=affecting_results)
        )
    return models


def parse_model(tree: YamlTree, key_path: YamlPath, role: str, value: YamlValue, allowed: tuple[str, ...]) -> ModelName:
    """Read the model of ``role`` at ``key_path``, with ``allowed`` options."""
    options = dict(value) if isinstance(value, dict) else {"model": value}
    model_path = (*key_path, "model") if isinstance(value, dict) and "model" in value else key_path
    name = options.pop("model", None)
    if not isinstance(name, str):
        form = "must be the name of a model, or a mapping with the key 'model'"
        raise tree.error(model_path, f"{role} {form}, not {redacted(shorten(name))}")
    if problem := problem_with_name(role, name):
        raise tree.error(model_path, problem)
    for option, setting in options.items():
        if option in allowed:
            problem = problem_with_option(role, name, option, setting)
        else:
            problem = unknown_key_message(option, ("model", *allowed))
        if problem:
            raise tree.error((*key_path, option), problem)
    return ModelName(name, **options)
