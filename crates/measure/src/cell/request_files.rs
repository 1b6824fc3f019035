//! Where what was recorded of a cell lies on this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nestor_correlate::ExtentMap;
use nestor_stack::LayerIndex;
use nestor_trace::CallEnd;

/// Files of requests and what is known of the spaces between them, on this machine.
#[derive(Default)]
pub(super) struct RequestFiles {
    /// The application's operations.
    pub application: Option<PathBuf>,
    /// Of the block devices, by the layer that offers each.
    pub points: BTreeMap<LayerIndex, PathBuf>,
    /// By the hypervisor's layer: on the virtual disk, on the image file.
    pub virtual_disks: BTreeMap<LayerIndex, (PathBuf, Option<PathBuf>)>,
    /// Of network file systems, by the layer and the end.
    pub calls: BTreeMap<(LayerIndex, CallEnd), PathBuf>,
    /// The modelled disk's.
    pub medium: Option<PathBuf>,
    /// Where each image lies on the device below, by its layer: position in the file, on the device, and bytes.
    pub image_extents: BTreeMap<LayerIndex, Vec<(u64, u64, u64)>>,
    /// Where the virtual disk lies in its image file, by the image's layer; of formats with tables only.
    pub image_maps: BTreeMap<LayerIndex, ExtentMap>,
    /// The layout of the file system in each image, as the machine that holds the image reads it.
    pub image_layouts: BTreeMap<LayerIndex, PathBuf>,
}
