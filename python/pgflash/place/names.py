# SPDX-License-Identifier: PostgreSQL
"""Names in a list, as in settings such as temp_tablespaces: `a, "B c"`."""


def split_names(text: str) -> list[str]:
    """Return the names in a list such as `a, "B c"`, as the server reads them."""
    names, rest = [], text.strip()
    while rest:
        if rest.startswith('"'):
            end = 1
            while (end := rest.index('"', end)) and rest[end : end + 2] == '""':
                end += 2
            names.append(rest[1:end].replace('""', '"'))
            rest = rest[end + 1 :].lstrip().removeprefix(",").lstrip()
        else:
            name, _comma, rest = rest.partition(",")
            names.append(name.strip().lower())
            rest = rest.lstrip()
    return names


def quote_name(name: str) -> str:
    """Return a name in the form it has in such a list."""
    return '"' + name.replace('"', '""') + '"' if not _is_plain(name) else name


def _is_plain(name: str) -> bool:
    return (
        bool(name)
        and name.replace("_", "a").isalnum()
        and name == name.lower()
        and (name[0].isalpha() or name[0] == "_")
        and name.isascii()
    )
