# SPDX-License-Identifier: PostgreSQL
"""Whether what a server has acknowledged is on another machine, too."""

from dataclasses import dataclass

#: Values of synchronous_commit with which a commit waits until a standby has flushed its WAL.
_FLUSHED = frozenset({"on", "remote_apply"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Standbys:
    """The synchronous standbys of a server."""

    #: It is a standby itself.
    is_standby: bool
    #: The settings synchronous_standby_names and synchronous_commit, as new sessions have them.
    names: str
    commit: str
    #: Those that are connected; None: this role may not see them.
    connected: int | None

    @property
    def is_flushed(self) -> bool:
        """Whether a commit waits for a synchronous standby's disk, if there is one."""
        return self.commit in _FLUSHED

    @property
    def is_hidden(self) -> bool:
        """Whether it depends on what this role may not see."""
        return bool(self.names.strip()) and self.is_flushed and self.connected is None

    def why_alone(self) -> str:
        """Return why a commit may be on this machine only when it is acknowledged, or ""."""
        if not self.names.strip():
            return "there is no synchronous standby (synchronous_standby_names is empty)"
        if not self.is_flushed:
            return f"commits do not wait for a standby's disk (synchronous_commit is {self.commit})"
        if self.connected is None:
            return "this role may not see whether a synchronous standby is connected"
        if self.connected == 0:
            return "no synchronous standby is connected"
        return ""
