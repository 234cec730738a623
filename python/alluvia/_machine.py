"""What the compiled half needs of the processor, asked before it is loaded: without it the process would be killed."""

from __future__ import annotations

NEEDED = {"avx2", "bmi1", "bmi2", "fma", "movbe"}


def missing(cpuinfo: str) -> set[str]:
    """What the first processor of a `/proc/cpuinfo` lacks.

    >>> sorted(missing("flags\\t\\t: fpu avx2 bmi1 bmi2 movbe"))
    ['fma']
    >>> missing("nothing that is known")
    set()
    """
    for line in cpuinfo.splitlines():
        if line.startswith("flags"):
            return NEEDED - set(line.split())
    return set()


def check() -> None:
    """Raises ImportError where the processor is too old."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            lacking = missing(file.read(1 << 16))
    except OSError:
        return
    if lacking:
        raise ImportError(f"alluvia is built for x86-64-v3, and this processor lacks {', '.join(sorted(lacking))}")
