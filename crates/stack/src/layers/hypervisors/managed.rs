//! A virtual machine that a manager of a cloud starts: what it is asked for.

use crate::{
    Conflict, Layer, LayerIndex, ManagerKind, OptionKind, OptionSpec, Place, Stack, StackError, TimeSpan,
};

use super::RunBy;
use super::run_by::BY;

/// Which image an instance of EC2 has.
pub(super) const IMAGE: OptionSpec = OptionSpec {
    name: "image",
    summary: "with by=ec2: the image that the instance has, by its name at the endpoint, as in image=ami-0abc",
    kind: OptionKind::Name,
    default: None,
};

/// How large it is.
pub(super) const TYPE: OptionSpec = OptionSpec {
    name: "type",
    summary: "with by=ec2: the type of the instance, as in type=t3.micro (unset: the endpoint's usual one)",
    kind: OptionKind::Name,
    default: None,
};

/// What an instance of OpenNebula is made of.
pub(super) const TEMPLATE: OptionSpec = OptionSpec {
    name: "template",
    summary: "with by=opennebula: the template of the instance, by its name or its number",
    kind: OptionKind::Name,
    default: None,
};

/// How often the manager is asked. With the longest time for an answer, a manager that is dead is noticed within 30 s.
pub(super) const POLL: OptionSpec = OptionSpec {
    name: "poll",
    summary: "with a manager: how often it is asked for the state of the instance, which each of its times is known to",
    kind: OptionKind::TimeSpan { min: TimeSpan(100_000_000), max: TimeSpan(10_000_000_000) },
    default: Some("1s"),
};

/// What is of managers only.
const OF_MANAGERS: [&str; 4] = [IMAGE.name, TYPE.name, TEMPLATE.name, POLL.name];

/// What an instance is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceOf<'a> {
    /// An image of an EC2 endpoint.
    Ec2 {
        /// The image.
        image: &'a str,
        /// The type; `None` for the endpoint's usual one.
        instance_type: Option<&'a str>,
    },
    /// A template of an OpenNebula.
    OpenNebula {
        /// Its name or number.
        template: &'a str,
    },
}

/// An instance as a manager is asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManagedInstance<'a> {
    /// What it is made of.
    pub of: InstanceOf<'a>,
    /// How often its state is asked for.
    pub poll: TimeSpan,
}

impl ManagedInstance<'_> {
    /// Who is asked.
    pub const fn kind(&self) -> ManagerKind {
        match self.of {
            InstanceOf::Ec2 { .. } => ManagerKind::Ec2,
            InstanceOf::OpenNebula { .. } => ManagerKind::OpenNebula,
        }
    }
}

/// The manager that runs the machine of a layer.
fn manager_of(layer: &Layer) -> Option<ManagerKind> {
    match RunBy::of(layer)? {
        RunBy::Manager(kind) => Some(kind),
        RunBy::Nestor | RunBy::Libvirt => None,
    }
}

/// An option that says what an instance is made of, and one that is of another manager.
const fn options_of(kind: ManagerKind) -> (&'static str, &'static [&'static str], &'static str) {
    match kind {
        ManagerKind::Ec2 => (IMAGE.name, &[TEMPLATE.name], "by=ec2:image=ami-0abc"),
        ManagerKind::OpenNebula => (TEMPLATE.name, &[IMAGE.name, TYPE.name], "by=opennebula:template=0"),
    }
}

/// Refuses a request for an instance without what it is made of, and what is of managers where none is asked.
pub(super) fn check(layer: &Layer) -> Result<(), Conflict> {
    let refuse =
        |option, message: String, help: String| Err(Conflict { option: Some(option), message, help });
    let Some(kind) = manager_of(layer) else {
        let Some(option) = OF_MANAGERS.into_iter().find(|option| layer.is_set(option)) else { return Ok(()) };
        let message =
            format!("{option} is of instances that a manager starts, and Nestor starts this machine");
        return refuse(option, message, format!("omit {option}, or add by=ec2 or by=opennebula"));
    };
    let (wanted, foreign, example) = options_of(kind);
    if let Some(option) = foreign.iter().find(|option| layer.is_set(option)) {
        let message = format!("{} has no {option}", kind.product());
        return refuse(option, message, format!("omit {option}, and write {wanted}= as in {example}"));
    }
    if !layer.is_set(wanted) {
        let message = format!("{} is not told what the instance is made of", kind.product());
        return refuse(BY.name, message, format!("add {wanted}=, as in {example}"));
    }
    Ok(())
}

impl Layer {
    /// What a manager is asked for; `None` if it does not run the machine of this layer.
    pub fn managed_instance(&self) -> Option<ManagedInstance<'_>> {
        let of = match manager_of(self)? {
            ManagerKind::Ec2 => {
                InstanceOf::Ec2 { image: self.option(IMAGE.name)?, instance_type: self.option(TYPE.name) }
            }
            ManagerKind::OpenNebula => InstanceOf::OpenNebula { template: self.option(TEMPLATE.name)? },
        };
        Some(ManagedInstance { of, poll: self.value(POLL.name)? })
    }
}

impl Stack {
    /// The layer whose machine a manager runs, and what it is asked for.
    pub fn managed(&self) -> Option<(LayerIndex, ManagedInstance<'_>)> {
        self.indexed_layers().find_map(|(at, layer)| Some((at, layer.managed_instance()?)))
    }

    /// For those who build it, or ask a manager for it: a stack with an instance is at its manager, and there is nothing else. What is below
    /// the instance is there what the user says of the cloud.
    ///
    /// # Errors
    /// The stack is somewhere else, or the manager another.
    pub(crate) fn require_manager(&self, place: &Place) -> Result<(), StackError> {
        let at_option =
            |at, message: String, help: &str| Err(StackError::at_option(self, at, BY.name, message, help));
        match (self.managed(), place) {
            (None, Place::Manager { kind, .. }) => {
                let at = self.innermost_machine_or_medium();
                let message = format!(
                    "`--on {place}` starts instances, and this stack has none that {} is asked for",
                    kind.product()
                );
                let help = format!("write who runs the machine: kvm:{}", options_of(*kind).2);
                Err(StackError::at_layer(self, at, message, help))
            }
            (Some((at, instance)), Place::Manager { kind, .. }) if instance.kind() != *kind => {
                let message =
                    format!("{} runs this machine, and `--on {place}` is another", instance.kind().product());
                at_option(
                    at,
                    message,
                    &format!("use `--on {}` with its address", instance.kind().usual_place()),
                )
            }
            (Some(_), Place::Manager { .. }) => self.require_instances(1, 1),
            (Some((at, instance)), _) => {
                let kind = instance.kind();
                let message = format!("{} runs this machine, and this is `--on {place}`", kind.product());
                at_option(at, message, &format!("say where it answers: `--on {}`", kind.usual_place()))
            }
            (None, _) => Ok(()),
        }
    }

    /// The virtual machine at which `by=` is missing.
    fn innermost_machine_or_medium(&self) -> LayerIndex {
        let machine = self.indexed_layers().find(|(_, layer)| layer.has_option(BY.name));
        machine.map_or_else(|| self.medium_index(), |(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str = "copy:scp/ext4/hdd//link/raw/ext4/hdd";

    fn stack(instance: &str) -> Result<Stack, String> {
        Stack::parse(&format!("ext4/{instance}/{REST}")).map_err(|e| e.to_string())
    }

    fn place(text: &str) -> Place {
        text.parse().unwrap()
    }

    #[test]
    fn an_instance_is_asked_for_by_what_it_is_made_of() {
        let ec2 = stack("kvm:by=ec2:image=ami-0abc:type=t3.micro:poll=500ms").unwrap();
        let (_, instance) = ec2.managed().unwrap();
        assert_eq!(instance.of, InstanceOf::Ec2 { image: "ami-0abc", instance_type: Some("t3.micro") });
        assert_eq!(instance.poll, TimeSpan(500_000_000));
        let one = stack("xen:by=opennebula:template=small").unwrap();
        let (_, instance) = one.managed().unwrap();
        assert_eq!(instance.of, InstanceOf::OpenNebula { template: "small" });
        assert_eq!(instance.poll, TimeSpan(1_000_000_000));
        assert!(stack("kvm").unwrap().managed().is_none());
    }

    #[test]
    fn what_a_manager_needs_or_does_not_have_is_said() {
        let cases = [
            ("kvm:by=ec2", "EC2 is not told what the instance is made of"),
            ("kvm:by=opennebula:poll=2s", "OpenNebula is not told what the instance is made of"),
            ("kvm:by=ec2:image=a:template=1", "EC2 has no template"),
            ("tcg:by=opennebula:template=1:type=t", "OpenNebula has no type"),
            ("kvm:image=ami-1", "image is of instances that a manager starts"),
            ("xen:by=libvirt:poll=2s", "poll is of instances that a manager starts"),
            ("kvm:by=ec2:image=a:poll=1m", "a time from 100ms to 10s"),
            ("kvm:by=ec2:image=a+b", "a name of letters, digits"),
        ];
        for (instance, said) in cases {
            let refused = stack(instance).unwrap_err();
            assert!(refused.contains(said) && refused.contains('^'), "{refused}");
        }
    }

    #[test]
    fn an_instance_is_at_its_manager_and_nothing_else_is() {
        let at = |instance: &str, on: &str| {
            stack(instance).unwrap().require_place(&place(on)).map_err(|e| e.to_string())
        };
        let (ec2, one) = ("kvm:by=ec2:image=ami-0abc", "kvm:by=opennebula:template=0");
        assert_eq!(at(ec2, "ec2:http://127.0.0.1:5000"), Ok(()));
        assert_eq!(at(one, "opennebula:http://127.0.0.1:2633/RPC2"), Ok(()));
        for (instance, on, said) in [
            (ec2, "emulated", "say where it answers: `--on ec2:http://127.0.0.1:5000`"),
            (one, "this", "say where it answers: `--on opennebula:http://127.0.0.1:2633/RPC2`"),
            (ec2, "opennebula:http://h/RPC2", "EC2 runs this machine"),
            ("kvm", "ec2:http://h", "write who runs the machine: kvm:by=ec2:image=ami-0abc"),
        ] {
            let refused = at(instance, on).unwrap_err();
            assert!(refused.contains(said) && refused.contains('^'), "{refused}");
        }
        let without_source = Stack::parse("ext4/kvm:by=ec2:image=a/raw/ext4/hdd").unwrap();
        let refused = without_source.require_place(&place("ec2:http://h")).unwrap_err().to_string();
        assert!(refused.contains("this stack has no source"), "{refused}");
    }
}
