"""``PredictorProfile`` without a cluster: which one counts, and what it says to a training here.

In a cluster ``justitia_operator.manifests`` turns the same fields into a Job.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from justitia.local.errors import LocalModeError
from justitia.local.manifests import read_manifests
from justitia.resources.application import LLMApplication
from justitia.resources.profile import PredictorProfile, ProfileSpec, SamplesPart
from justitia.resources.reading import Resource

#: Of ``spec.job`` what ``justitia up`` heeds: how often a training may fail, how long it may take.
_HEEDED_JOB_FIELDS: Final = frozenset({"backoffLimit", "activeDeadline"})


def read_profile(path: Path, *, application: str | None = None) -> PredictorProfile:
    """Read the profile of a manifest file, or of a folder of manifests.

    Where there are several, the one counts that ``application`` (declared there too) refers to.

    Raises:
        LocalModeError: the file is refused, or which profile is meant is open.
    """
    manifests = read_manifests(path)
    profiles = [manifest for manifest in manifests if isinstance(manifest, PredictorProfile)]
    if not profiles:
        raise LocalModeError(f"{path}: there is no PredictorProfile")
    if len(profiles) == 1:
        return profiles[0]
    short = (application or "").rpartition("/")[2]
    for declared, profile in trained_applications(manifests):
        if declared.metadata.name == short:
            return profile
    names = ", ".join(profile.metadata.name for profile in profiles)
    raise LocalModeError(
        f"{path}: there are {len(profiles)} PredictorProfiles ({names}); give a file with one, or "
        "--application with the name of an application there that refers to one"
    )


def trained_applications(
    manifests: Iterable[Resource],
) -> Iterator[tuple[LLMApplication, PredictorProfile]]:
    """List the applications that refer to a profile of their namespace, with it."""
    manifests = list(manifests)
    profiles = {
        (manifest.metadata.namespace, manifest.metadata.name): manifest
        for manifest in manifests
        if isinstance(manifest, PredictorProfile)
    }
    for manifest in manifests:
        if isinstance(manifest, LLMApplication) and manifest.spec.predictor.profile_ref is not None:
            key = (manifest.metadata.namespace, manifest.spec.predictor.profile_ref.name)
            if key in profiles:
                yield manifest, profiles[key]


def recordings_path(samples: SamplesPart, given: Path | None) -> Path | None:
    """Find the file that a profile's training reads; None: what the service has recorded.

    ``given`` is a file, or a folder that stands in for the profile's ConfigMap or volume.

    Raises:
        LocalModeError: the profile reads a ConfigMap or volume, and nothing stands in for it.
    """
    inside = _path_inside(samples)
    if given is None:
        if inside is not None:
            raise LocalModeError(
                f"samples.{_source_name(samples)} is in a cluster: give its file, or a folder with "
                f"{inside}, by --recordings"
            )
        return None
    return given / inside if inside is not None and given.is_dir() else given


def unhonoured_fields(spec: ProfileSpec, *, recordings: Path | None) -> Iterator[str]:
    """Name the fields of a profile that say something and have no effect without a cluster."""
    inside = _path_inside(spec.samples)
    if inside is not None and recordings is None:
        yield f"samples.{_source_name(spec.samples)}, --recordings stands in for it"
    # An API server writes defaults into what it stores: they say nothing.
    for name in spec.job.model_dump(by_alias=True, exclude_defaults=True):
        if name not in _HEEDED_JOB_FIELDS:
            yield f"job.{name}"


def _path_inside(samples: SamplesPart) -> str | None:
    if samples.config_map is not None:
        return samples.config_map.key
    if samples.persistent_volume_claim is not None:
        return samples.persistent_volume_claim.path
    return None


def _source_name(samples: SamplesPart) -> str:
    return "configMap" if samples.config_map is not None else "persistentVolumeClaim"
