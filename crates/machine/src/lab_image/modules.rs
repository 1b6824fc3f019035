//! Kernel modules: which others each one needs, and the order in which they are loaded.
//!
//! Source: the format of `modules.dep` and `modules.builtin`, modules.dep(5) and the kernel's
//! Documentation/kbuild/kbuild.rst.

use std::collections::{HashMap, HashSet};

/// The modules of one kernel, as its `modules.dep` and `modules.builtin` describe them.
pub struct ModuleTree {
    /// By name: the file, relative to the directory of `modules.dep`, and the files it needs.
    modules: HashMap<String, (String, Vec<String>)>,
    built_in: HashSet<String>,
}

impl ModuleTree {
    /// Reads the text of the two files.
    pub fn parse(modules_dep: &str, modules_builtin: &str) -> ModuleTree {
        let modules = modules_dep
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(file, needs)| {
                let needs = needs.split_whitespace().map(str::to_owned).collect();
                (module_name(file), (file.trim().to_owned(), needs))
            })
            .collect();
        ModuleTree { modules, built_in: modules_builtin.lines().map(module_name).collect() }
    }

    /// The files of `wanted` and of everything they need, each once and after all that it needs itself. What is built
    /// into the kernel is left out.
    ///
    /// # Errors
    /// The names of all modules that are neither files nor built in.
    pub fn load_order(&self, wanted: &[String]) -> Result<Vec<String>, Vec<String>> {
        let mut order = Vec::new();
        let mut missing = Vec::new();
        let mut seen = HashSet::new();
        for name in wanted {
            self.visit(&module_name(name), &mut seen, &mut order, &mut missing);
        }
        if missing.is_empty() { Ok(order) } else { Err(missing) }
    }

    fn visit(
        &self,
        name: &str,
        seen: &mut HashSet<String>,
        order: &mut Vec<String>,
        missing: &mut Vec<String>,
    ) {
        // Marking before descending also ends a walk around a circle, which depmod does not write but a file may hold.
        if !seen.insert(name.to_owned()) || self.built_in.contains(name) {
            return;
        }
        let Some((file, needs)) = self.modules.get(name) else {
            missing.push(name.to_owned());
            return;
        };
        for needed in needs {
            self.visit(&module_name(needed), seen, order, missing);
        }
        order.push(file.clone());
    }
}

/// The modules a module's file itself says it needs: the `depends` entry of its `.modinfo` section (the kernel's
/// scripts/mod/modpost.c, `add_depends`).
///
/// `modules.dep` does not do for a check of completeness: depmod leaves out what it has not found.
pub fn declared_needs(module_file: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(start) = module_file.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let value = &module_file[start + KEY.len()..];
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    let text = String::from_utf8_lossy(&value[..end]);
    text.split(',').filter(|name| !name.is_empty()).map(module_name).collect()
}

/// `virtio_rng` for `kernel/drivers/char/hw_random/virtio-rng.ko`: the kernel takes hyphens and underscores as the same.
fn module_name(file: &str) -> String {
    let base = file.trim().rsplit('/').next().unwrap_or_default();
    base.split(".ko").next().unwrap_or_default().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MODULES_DEP: &str = "\
kernel/drivers/block/virtio_blk.ko: kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko
kernel/drivers/virtio/virtio.ko: kernel/drivers/virtio/virtio_ring.ko
kernel/drivers/virtio/virtio_ring.ko:
kernel/drivers/char/hw_random/virtio-rng.ko: kernel/drivers/virtio/virtio.ko
kernel/fs/broken.ko: kernel/lib/gone.ko kernel/fs/mbcache.ko
kernel/fs/a.ko: kernel/fs/b.ko
kernel/fs/b.ko: kernel/fs/a.ko
";
    const MODULES_BUILTIN: &str = "kernel/fs/mbcache.ko\nkernel/lib/crc16.ko\n";

    fn load_order(wanted: &[&str]) -> Result<Vec<String>, Vec<String>> {
        let wanted: Vec<_> = wanted.iter().map(|name| name.to_string()).collect();
        ModuleTree::parse(MODULES_DEP, MODULES_BUILTIN).load_order(&wanted)
    }

    #[test]
    fn what_is_needed_comes_first_and_once() {
        assert_eq!(
            load_order(&["virtio_blk", "virtio_rng", "virtio-rng"]).unwrap(),
            [
                "kernel/drivers/virtio/virtio_ring.ko",
                "kernel/drivers/virtio/virtio.ko",
                "kernel/drivers/block/virtio_blk.ko",
                "kernel/drivers/char/hw_random/virtio-rng.ko",
            ]
        );
    }

    #[test]
    fn what_is_built_in_needs_no_file() {
        assert!(load_order(&["crc16"]).unwrap().is_empty());
    }

    #[test]
    fn everything_missing_is_named() {
        assert_eq!(load_order(&["broken", "virtio", "zfs"]).unwrap_err(), ["gone", "zfs"]);
    }

    #[test]
    fn a_circle_ends() {
        assert_eq!(load_order(&["a"]).unwrap(), ["kernel/fs/b.ko", "kernel/fs/a.ko"]);
    }

    #[test]
    fn a_module_says_itself_what_it_needs() {
        assert_eq!(
            declared_needs(b"\x7fELF\0license=GPL\0depends=virtio,crc-t10dif\0name=x\0"),
            ["virtio", "crc_t10dif"]
        );
        assert!(declared_needs(b"\x7fELF\0license=GPL\0depends=\0name=x\0").is_empty());
        assert!(declared_needs(b"\x7fELF").is_empty());
    }

    proptest! {
        /// In any tree without circles every module comes after all that it needs.
        #[test]
        fn the_order_respects_every_need(needs in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..4), 1..20)) {
            let mut text = String::new();
            let mut pairs = Vec::new();
            for (number, list) in needs.iter().enumerate() {
                text.push_str(&format!("kernel/m{number}.ko:"));
                for index in list.iter().filter(|_| number > 0) {
                    let needed = index.index(number);
                    pairs.push((number, needed));
                    text.push_str(&format!(" kernel/m{needed}.ko"));
                }
                text.push('\n');
            }
            let wanted: Vec<_> = (0..needs.len()).rev().map(|n| format!("m{n}")).collect();
            let order = ModuleTree::parse(&text, "").load_order(&wanted).unwrap();
            let place = |n: usize| order.iter().position(|file| *file == format!("kernel/m{n}.ko")).unwrap();
            prop_assert_eq!(order.len(), needs.len());
            for (module, needed) in pairs {
                prop_assert!(place(needed) < place(module));
            }
        }
    }
}
