"""What can be said about a Switch condition without a request.

A condition is a gjson path, and gjson has no syntax errors: a path it cannot make sense of silently matches
nothing. So a typo is found only here, by rules that hold for every path that can match: brackets and quotes
close, an escape escapes something, and a tier is one that the classifier knows.
"""

TIERS = ("small", "large")
TIER_PREFIX = "@tier:"

_CLOSES = {")": "(", "]": "[", "}": "{"}


def tier_of(condition: str) -> str | None:
    """The tier that ``@tier:NAME`` asks the classifier for; None for a gjson condition."""
    return condition.removeprefix(TIER_PREFIX) if condition.startswith(TIER_PREFIX) else None


def matches_everything(condition: str) -> bool:
    """True when every JSON body matches. A ``#(...)#`` query does: its empty list of hits exists, too."""
    return condition == "@this" or (condition.startswith("[@this].#(") and condition.endswith(")#"))


def syntax_fault(condition: str) -> str | None:
    """Why the condition cannot match as written, or None."""
    tier = tier_of(condition)
    if tier is not None:
        return None if tier in TIERS else f"there is no tier {tier!r} (known: {', '.join(TIERS)})"
    return _unclosed(condition)


def _unclosed(path: str) -> str | None:
    opened: list[str] = []
    quoted = escaped = False
    for char in path:
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == '"':
            quoted = not quoted
        elif not quoted and not _balances(char, opened):
            return f"{char!r} closes nothing"
    if escaped:
        return "it ends in a lone backslash"
    if quoted:
        return "a quoted string is not closed"
    return f"{opened[-1]!r} is not closed" if opened else None


def _balances(char: str, opened: list[str]) -> bool:
    """Track one bracket in ``opened``; False when it closes nothing. Other characters change nothing."""
    if char in "([{":
        opened.append(char)
        return True
    if char not in _CLOSES:
        return True
    return bool(opened) and opened.pop() == _CLOSES[char]
