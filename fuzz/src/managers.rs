//! What managers of a cloud answer.

use nestor_manager::{
    InstanceSeen, VmSeen, instances_of, reply_of, started_of, template_named, vm_of, vms_named,
};

/// EC2's answers.
pub fn ec2(text: &str) {
    let _ = started_of(text);
    let _ = instances_of(text).map(|seen| seen.into_iter().map(InstanceSeen::sight).collect::<Vec<_>>());
}

/// OpenNebula's answers, and the documents in them.
pub fn opennebula(text: &str) {
    let _ = reply_of("one.vm.info", text);
    let _ = vm_of(text).and_then(VmSeen::sight);
    let _ = template_named(text, "small");
    let _ = vms_named(text, "nestor-1");
}
