//! The dependencies of numbers in virtual time other than the cell: programs, image, place.

use std::collections::BTreeMap;
use std::fs;

use nestor_machine::{LAB_HYPERVISOR, hypervisor};
use nestor_stack::LabPack;
use sha2::{Digest, Sha256};

use crate::Lab;
use crate::doctor::find_program;

impl Lab {
    /// SHA-256 over this program (the agent of every machine, the disks' models and the library in QEMU are in it), QEMU, the
    /// lab image and the place. `None` where numbers do not follow from these, in real time; or if a program cannot be read.
    pub fn dependencies(&mut self) -> Option<[u8; 32]> {
        if !self.place().is_in_virtual_time() {
            return None;
        }
        let image = self.ground_files().ok()?.contents;
        let emulator = fs::read(find_program(hypervisor(LAB_HYPERVISOR).program())?).ok()?;
        let mut digest = Sha256::new();
        digest.update(self.program_digest().ok()?);
        digest.update(Sha256::digest(emulator));
        // Texts of any length are told apart by their lengths.
        for text in
            [self.ground_facts.hypervisor.clone().unwrap_or_default(), image, self.place().to_string()]
        {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text);
        }
        Some(digest.finalize().into())
    }

    /// The same of the images with a kernel of the user's, by its name.
    pub fn contents_of_kernels(&self) -> BTreeMap<String, String> {
        self.kernels.iter().map(|(name, files)| (name.clone(), files.image.contents.clone())).collect()
    }

    /// The same of the images with a QEMU of the user's.
    pub fn contents_of_qemus(&self) -> BTreeMap<String, String> {
        self.qemus.iter().map(|(name, files)| (name.clone(), files.image.contents.clone())).collect()
    }

    /// SHA-256 of the contents of the images with more in them, which stacks that need one boot instead.
    pub fn contents_of_packs(&self) -> BTreeMap<LabPack, String> {
        self.packs.iter().map(|(pack, files)| (*pack, files.contents.clone())).collect()
    }
}
