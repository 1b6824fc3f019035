//! Whole builds: with made-up tools in place of apt, mmdebstrap and sqfstar, and once, on demand, with the real ones.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::Ordering;

use insta::assert_snapshot;
use tempfile::TempDir;

use super::*;

/// Writes an archive of a root with a kernel, two modules and two packages to the argument that ends in `.tar`.
const MMDEBSTRAP: &str = r#"
for argument; do case "$argument" in *.tar) out=$argument;; esac; done
root=$TMPDIR/root; modules=$root/usr/lib/modules/6.1.0-7-amd64
mkdir -p "$root/boot" "$root/etc" "$root/var/lib/dpkg" "$modules/kernel"
echo kernel >"$root/boot/vmlinuz-6.1.0-7-amd64"
printf '\177ELF\0depends=\0' >"$modules/kernel/virtio.ko"
printf '\177ELF\0depends=virtio\0' >"$modules/kernel/virtio_blk.ko"
printf 'kernel/virtio.ko:\nkernel/virtio_blk.ko: kernel/virtio.ko\n' >"$modules/modules.dep"
echo kernel/built_in.ko >"$modules/modules.builtin"
printf 'Package: fio\nStatus: install ok installed\nVersion: 3.33-3\n' >"$root/var/lib/dpkg/status"
echo "Unpacking fio (3.33-3) ..."; echo "Setting up fio (3.33-3) ..."; echo "I: creating tarball..."
tar -cf "$out" -C "$root" .
"#;

/// A laboratory for builds: a cache and tools that are shell scripts.
struct Bench {
    directory: TempDir,
    recipe: Recipe,
    environment: Environment,
    interrupted: AtomicBool,
    news: RefCell<Vec<LabProgress>>,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tools = directory.path().join("tools");
        fs::create_dir(&tools).unwrap();
        let mut recipe = Recipe::built_in();
        recipe.expected_packages = 1;
        recipe.boot_modules = vec!["virtio_blk".into()];
        recipe.required_modules = vec!["built_in".into()];
        let environment = Environment {
            search_path: format!("{}:/usr/bin:/bin", tools.display()).into(),
            apt_directory: directory.path().join("no-apt"),
            mirror: None,
            is_root: true,
            own_mounts: false,
        };
        let interrupted = AtomicBool::new(false);
        let bench = Bench { directory, recipe, environment, interrupted, news: RefCell::default() };
        bench.tool("mmdebstrap", MMDEBSTRAP);
        bench.tool("sqfstar", "for argument; do out=$argument; done; cat >\"$out\"");
        bench.tool("apt-get", "exit 0");
        bench.tool("apt-config", "exit 0");
        bench
    }

    fn tool(&self, name: &str, script: &str) {
        // Another process writes it: a child that another test starts at the same moment would inherit a file that is
        // open for writing here, and running it would fail with `ETXTBSY` until that child's `exec`.
        let text = self.directory.path().join("tool.text");
        fs::write(&text, format!("#!/bin/sh\nset -e\n{script}\n")).unwrap();
        let path = self.directory.path().join("tools").join(name);
        let installed = Command::new("install").args(["-m", "755"]).args([text, path]).status();
        assert!(installed.unwrap().success(), "{name}");
    }

    fn cache(&self) -> PathBuf {
        self.directory.path().join("cache")
    }

    fn ensure(&self) -> Result<LabImage, LabImageError> {
        let options = EnsureOptions {
            pack: None,
            cache_directory: self.cache(),
            progress: &|news| self.news.borrow_mut().push(news),
            interrupted: &self.interrupted,
        };
        ensure_recipe(&self.recipe, &self.environment, &options)
    }

    fn refusal(&self) -> String {
        let error = self.ensure().unwrap_err().to_string();
        error
            .replace(&self.directory.path().display().to_string(), "…")
            .replace(&self.recipe.short_hash(), "HASH")
    }

    /// The message of a failure, after which only the lock and the packages may be left.
    fn failure(&self) -> String {
        let error = self.ensure().unwrap_err();
        let left: Vec<_> =
            fs::read_dir(self.cache().join("lab")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["lock"], "after: {error}");
        error.to_string().replace(&self.directory.path().display().to_string(), "…")
    }
}

#[test]
fn an_image_is_built_once_and_then_found() {
    let bench = Bench::new();
    let image = bench.ensure().unwrap();
    assert_eq!(image.directory, bench.cache().join("lab").join(bench.recipe.short_hash()));
    assert_eq!(fs::read_to_string(&image.kernel).unwrap(), "kernel\n");
    assert_eq!(image.manifest.kernel_release, "6.1.0-7-amd64");
    assert_eq!(image.manifest.packages["fio"], "3.33-3");
    assert_eq!(image.manifest.hash, bench.recipe.hash());

    let news = bench.news.take();
    assert!(news.is_sorted_by(|a, b| a.fraction <= b.fraction && a.stage <= b.stage));
    assert!(news.iter().any(|n| n.detail == "fio" && n.remaining.is_some()));
    assert_eq!(news.last().unwrap().fraction, 1.0);

    bench.tool("mmdebstrap", "exit 1");
    assert_eq!(bench.ensure().unwrap().manifest, image.manifest);
    assert!(bench.news.take().is_empty());
}

#[test]
fn an_image_that_was_changed_since_it_was_built_is_refused() {
    let (bench, image) = Bench::new().ensure_and_keep();
    fs::write(&image.kernel, "KERNEL\n").unwrap();
    let refusal = bench.refusal();
    assert_snapshot!(refusal, @"…/cache/lab/HASH/vmlinuz is not what was recorded when the lab image was made: a user or a fault changed it since; remove …/cache/lab/HASH, then run `nestor lab build`");
    assert_eq!(bench.refusal(), refusal, "looking does not make it good");
    fs::remove_dir_all(&image.directory).unwrap();
    bench.ensure().unwrap();
}

#[test]
fn a_cache_that_others_may_write_to_is_refused_whether_or_not_an_image_is_in_it() {
    let bench = Bench::new();
    fs::create_dir(bench.cache()).unwrap();
    let set_mode = |mode| fs::set_permissions(bench.cache(), fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o777);
    let refusal = bench.refusal();
    assert_snapshot!(refusal, @"the cache of the lab image was not used: …/cache may be written to by others than its owner (mode 0777). Set NESTOR_CACHE to a directory of your own, or, if no other user wrote to it, run `chmod go-w` on it");
    set_mode(0o755);
    bench.ensure().unwrap();
    set_mode(0o777);
    assert_eq!(bench.refusal(), refusal);
}

#[test]
fn the_root_holds_what_a_host_needs_to_boot_guests() {
    let image = Bench::new().ensure_and_keep();
    let root = image.1.directory.join("unpacked");
    fs::create_dir(&root).unwrap();
    // The made-up sqfstar keeps the archive as it is.
    let status =
        Command::new("tar").arg("-xf").arg(&image.1.root_squashfs).arg("-C").arg(&root).status().unwrap();
    assert!(status.success());
    let in_root = |path: &str| root.join(path.trim_start_matches('/'));
    assert_eq!(fs::read_to_string(in_root(KERNEL_IN_ROOT)).unwrap(), "kernel\n");
    assert_eq!(fs::read(in_root(MODULES_CPIO_IN_ROOT)).unwrap(), fs::read(&image.1.modules_cpio).unwrap());
    let manifest: LabManifest =
        serde_json::from_str(&fs::read_to_string(in_root(MANIFEST_IN_ROOT)).unwrap()).unwrap();
    assert_eq!(manifest, image.1.manifest);
    let modules = String::from_utf8_lossy(&fs::read(&image.1.modules_cpio).unwrap()).into_owned();
    assert!(modules.contains("/modules/virtio.ko\n/modules/virtio_blk.ko\n"));
}

impl Bench {
    /// The image, and the bench, with which the image goes.
    fn ensure_and_keep(self) -> (Self, LabImage) {
        let image = self.ensure().unwrap();
        (self, image)
    }
}

#[test]
fn a_named_mirror_is_fetched_from_first_and_mmdebstrap_gets_the_packages() {
    let mut bench = Bench::new();
    bench.environment.mirror = Some("http://near.example/debian".into());
    let calls = bench.directory.path().join("calls");
    let note = format!("echo \"$(basename $0) $*\" >>'{}'", calls.display());
    bench.tool(
        "apt-get",
        &format!("{note}\ngrep -q near.example \"$(dirname $APT_CONFIG)\"/etc/sources.list.d/*"),
    );
    bench.tool("mmdebstrap", &format!("{note}\n{MMDEBSTRAP}"));
    bench.ensure().unwrap();
    let calls = fs::read_to_string(calls).unwrap();
    let verbs: Vec<_> =
        calls.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(verbs, ["apt-get update", "apt-get install", "apt-get autoclean", "mmdebstrap --mode=root"]);
    assert!(calls.contains("--skip=update") && calls.contains("/cache/debs /var/cache/apt/archives"));
    assert!(bench.cache().join("debs").is_dir());
}

#[test]
fn no_network_is_said_plainly_and_nothing_is_left() {
    let mut bench = Bench::new();
    bench.environment.mirror = Some("http://near.example/debian".into());
    bench.tool(
        "apt-get",
        "echo 'E: Failed to fetch http://near.example/debian/InRelease  Could not connect'; exit 100",
    );
    assert_snapshot!(bench.failure(), @"could not fetch packages for the lab image: Failed to fetch http://near.example/debian/InRelease Could not connect; check the network, or set NESTOR_DEBIAN_MIRROR to the address of a mirror of Debian");
}

#[test]
fn a_failed_installation_shows_its_last_words() {
    let bench = Bench::new();
    bench.tool("mmdebstrap", "echo 'E: setup failed: apt died'; exit 25");
    assert_snapshot!(bench.failure(), @"
    installing packages failed: `mmdebstrap` ended with exit code 25
      E: setup failed: apt died
    ");
}

#[test]
fn a_disk_that_becomes_full_is_said_plainly() {
    let bench = Bench::new();
    bench.tool("sqfstar", "echo 'Write failed because No space left on device'; exit 1");
    let message = bench.failure();
    assert!(
        message.starts_with("the disk became full while the lab image was being built in …/cache/lab/"),
        "{message}"
    );
}

#[test]
fn a_recipe_that_leaves_out_a_needed_module_is_refused() {
    let mut bench = Bench::new();
    bench.recipe.required_modules.push("jfs".into());
    assert_snapshot!(bench.failure(), @"the kernel 6.1.0-7-amd64 that was installed lacks modules that the lab needs: jfs; lab/recipe.toml excludes them or names them wrongly");
    let bench = Bench::new();
    // depmod is silent about what it has not found; the module itself is not.
    bench.tool("mmdebstrap", &MMDEBSTRAP.replace("depends=virtio", "depends=virtio,virtio_ring"));
    assert!(bench.failure().contains("lacks modules that the lab needs: virtio_ring;"));
}

#[test]
fn an_interruption_leaves_nothing() {
    let bench = Bench::new();
    bench.tool("mmdebstrap", "echo 'Unpacking fio (3.33-3) ...'; sleep 1000");
    let options = EnsureOptions {
        pack: None,
        cache_directory: bench.cache(),
        progress: &|news| bench.interrupted.store(news.detail == "fio", Ordering::Relaxed),
        interrupted: &bench.interrupted,
    };
    let error = ensure_recipe(&bench.recipe, &bench.environment, &options).unwrap_err();
    assert!(matches!(error, LabImageError::Interrupted), "{error}");
    assert_eq!(fs::read_dir(bench.cache().join("lab")).unwrap().count(), 1);
}

/// Run by `make test-long`. `NESTOR_TEST_CACHE` names a cache to build in, so that fetched packages can be used again.
#[test]
#[ignore = "builds a real image: a minute, a network and 1.6 GB of room"]
fn the_real_tools_build_a_real_image() {
    let own = tempfile::tempdir().unwrap();
    let cache_directory = std::env::var_os("NESTOR_TEST_CACHE").map_or(own.path().to_owned(), PathBuf::from);
    let interrupted = AtomicBool::new(false);
    let options = EnsureOptions {
        pack: None,
        cache_directory,
        progress: &|news| {
            let left = news.remaining.unwrap_or_default().as_secs();
            println!(
                "{:3.0} % {} ({}), {left} s left",
                100.0 * news.fraction,
                news.stage.label(),
                news.detail
            );
        },
        interrupted: &interrupted,
    };
    let image = ensure(&options).unwrap();
    for package in Recipe::built_in().install_list() {
        assert!(image.manifest.packages.contains_key(package), "{package} is missing");
    }
    let listing = Command::new("unsquashfs").arg("-l").arg(&image.root_squashfs).output().unwrap();
    let listing = String::from_utf8(listing.stdout).unwrap();
    let release = &image.manifest.kernel_release;
    for path in [
        KERNEL_IN_ROOT,
        MODULES_CPIO_IN_ROOT,
        MANIFEST_IN_ROOT,
        "/usr/bin/fio",
        "/usr/bin/qemu-system-x86_64",
        "/usr/sbin/mkfs.jfs",
        &format!("/usr/lib/modules/{release}/kernel/fs/reiserfs/reiserfs.ko"),
    ] {
        assert!(listing.lines().any(|line| line == format!("squashfs-root{path}")), "{path} is missing");
    }
    assert!(!listing.contains("/usr/share/man/man1/fio.1"), "man pages were to be left out");
}
