"""Who asks Headroom to scale what: the object itself, apart from how its policy was spelled."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TargetRef:
    """One object with a ``/scale`` subresource. `group` is empty for the core group; `resource` is the plural."""

    group: str
    version: str
    resource: str
    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def workload(self) -> str:
        """The name of the workload everywhere: ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        """The object's path on the API server."""
        root = f"/apis/{self.group}" if self.group else "/api"
        return f"{root}/{self.version}/namespaces/{self.namespace}/{self.resource}/{self.name}"

    @property
    def api_version(self) -> str:
        """Group and version as manifests write them."""
        return f"{self.group}/{self.version}" if self.group else self.version
