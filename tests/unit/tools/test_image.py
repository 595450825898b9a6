# SPDX-License-Identifier: PostgreSQL
"""An extension image for CloudNativePG has what a server of 18 loads, and nothing else."""

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from pgflash_lab.account import make_server_dir, reachable_dir
from pgflash_lab.postgres import PgInstall
from support.cluster import REPOSITORY, ClusterFactory, build_install, find_install
from support.patience import eventually
from support.script import SQL_VERSION, script_folder

SCRIPT = REPOSITORY / "tools" / "image.sh"


def package(folder: Path, install: PgInstall, major: int = 18) -> Path:
    """Return a Debian package with the files of an installation, where Debian has them."""
    for program, name in (("umoci", "umoci"), ("dpkg-deb", "dpkg")):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}: apt-get install {name}")
    name = f"postgresql-{major}-pgflash"
    root = folder / f"package-{major}"
    places = {
        f"usr/lib/postgresql/{major}/lib/pgflash.so": install.pkglibdir / "pgflash.so",
        f"usr/share/doc/{name}/copyright": REPOSITORY / "debian" / "copyright",
    }
    scripts = script_folder(install)
    for file in (scripts / "pgflash.control", scripts / f"pgflash--{SQL_VERSION}.sql"):
        places[f"usr/share/postgresql/{major}/extension/{file.name}"] = file
    for place, file in places.items():
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, root / place)
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN" / "control").write_text(
        f"Package: {name}\nVersion: 0.2.0-1\nArchitecture: amd64\n"
        "Maintainer: pgflash contributors <pgflash@example.org>\nDescription: for a test\n"
    )
    subprocess.run(("dpkg-deb", "--root-owner-group", "--build", root, folder), check=True)
    return folder / f"{name}_0.2.0-1_amd64.deb"


def image(deb: Path, out: Path, *, umask: int = 0o022) -> subprocess.CompletedProcess[str]:
    """Make an image."""
    return subprocess.run(
        (SCRIPT, deb, out), capture_output=True, text=True, check=False, umask=umask
    )


def unpacked(out: Path, into: Path) -> Path:
    """Return the root of an image's files."""
    rootless = ("--rootless",) if os.geteuid() else ()
    words = ("umoci", "unpack", *rootless, "--image", f"{out}:0.2.0-18", into)
    subprocess.run(words, check=True, capture_output=True)
    return into / "rootfs"


@pytest.fixture(scope="module")
def install18() -> PgInstall:
    """A server of 18 with the extension."""
    return build_install(find_install(18), assertions=True)


def bare_install() -> PgInstall:
    """A server of 18 without the extension, which make build may have put into the one found."""
    found = find_install(18)
    copy = found.copy_to(reachable_dir(REPOSITORY / "build" / "pg") / f"{found.version}-bare")
    for path in (
        copy.pkglibdir / "pgflash.so",
        *(copy.sharedir / "extension").glob("pgflash*"),
    ):
        path.unlink(missing_ok=True)
    return copy


def test_an_image_has_the_files_of_the_package_and_its_licence(
    install18: PgInstall, tmp_path: Path
) -> None:
    done = image(package(tmp_path, install18), tmp_path / "out")
    assert done.returncode == 0, done.stderr
    root = unpacked(tmp_path / "out", tmp_path / "bundle")
    files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert files == {
        "lib/pgflash.so",
        "licenses/pgflash",
        "share/extension/pgflash.control",
        f"share/extension/pgflash--{SQL_VERSION}.sql",
    }
    library = (root / "lib" / "pgflash.so").read_bytes()
    assert library == (install18.pkglibdir / "pgflash.so").read_bytes()
    assert all(path.stat().st_mode & 0o444 == 0o444 for path in root.rglob("*"))


def test_an_image_has_the_same_bytes_again_and_belongs_to_root(
    install18: PgInstall, tmp_path: Path
) -> None:
    deb = package(tmp_path, install18)
    for out, umask in (("one", 0o022), ("two", 0o077)):
        assert image(deb, tmp_path / out, umask=umask).returncode == 0
    one, two = (
        {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in blobs}
        for blobs in ((tmp_path / out / "blobs" / "sha256").iterdir() for out in ("one", "two"))
    )
    assert one == two
    assert all(name == digest for name, digest in one.items())
    index = json.loads((tmp_path / "one" / "index.json").read_text())
    (manifest,) = index["manifests"]
    blobs = tmp_path / "one" / "blobs" / "sha256"
    read = json.loads((blobs / manifest["digest"].removeprefix("sha256:")).read_text())
    (layer,) = read["layers"]
    with tarfile.open(blobs / layer["digest"].removeprefix("sha256:")) as archive:
        assert {(one.uid, one.gid) for one in archive} == {(0, 0)}
    config = json.loads((blobs / read["config"]["digest"].removeprefix("sha256:")).read_text())
    assert (config["architecture"], config["os"]) == ("amd64", "linux")


def test_a_server_without_the_extension_loads_it_from_the_image(
    install18: PgInstall, cluster: ClusterFactory, tmp_path: Path
) -> None:
    done = image(package(tmp_path, install18), tmp_path / "out")
    assert done.returncode == 0, done.stderr
    stock = bare_install()
    server = cluster(install=stock, start=False)
    root = make_server_dir(server.base / "extensions") / "pgflash"
    shutil.copytree(unpacked(tmp_path / "out", tmp_path / "bundle"), root)
    root.chmod(0o755)
    flash = make_server_dir(server.base / "flash")
    server.configure(
        {
            "shared_preload_libraries": "pgflash",
            "extension_control_path": f"$system:{root}/share",
            "dynamic_library_path": f"$libdir:{root}/lib",
            "pgflash.cache_file": str(flash / "cache"),
            "pgflash.cache_size": "16MB",
        }
    )
    server.start()
    with server.connect() as session:
        session.autocommit = True
        session.execute("create extension pgflash")
        mode = "select mode from pgflash_cache"
        assert eventually(lambda: session.execute(mode).fetchone() == ("serve",))
        assert session.execute("show pgflash.version").fetchone() == (SQL_VERSION,)
        # The server may have taken its own first one already.
        assert session.execute("select pgflash_snapshot() > 0").fetchone() == (True,)
        assert session.execute("select mismatched from pgflash_cache_verify()").fetchone() == (0,)


@pytest.mark.parametrize("what", ["an older major", "no file"])
def test_what_cannot_be_an_image_is_refused(
    install18: PgInstall, tmp_path: Path, what: str
) -> None:
    deb = package(tmp_path, install18, 17) if what == "an older major" else tmp_path / "none.deb"
    done = image(deb, tmp_path / "out")
    assert done.returncode == 1
    assert ("18 is the first" if "older" in what else "Name the package") in done.stderr
    assert not (tmp_path / "out").exists()


def test_an_image_replaces_an_earlier_one_and_nobody_elses(
    install18: PgInstall, tmp_path: Path
) -> None:
    deb, out = package(tmp_path, install18), tmp_path / "out"
    for _time in range(2):
        done = image(deb, out)
        assert done.returncode == 0, done.stderr
    other = tmp_path / "other"
    for words in (("init", "--layout", other), ("new", "--image", f"{other}:theirs")):
        subprocess.run(("umoci", *words), check=True, capture_output=True)
    before = sorted(other.rglob("*"))
    done = image(deb, other)
    assert done.returncode == 1
    assert f"{other} would be emptied" in done.stderr
    assert sorted(other.rglob("*")) == before
