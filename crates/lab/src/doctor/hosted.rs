//! Whether the hypervisors that the user has installed can be used with `--on this`.

use nestor_machine::{Cause, Refusal, hosted_here, hypervisor};
use nestor_stack::layers::hypervisors::HostedSpec;
use nestor_stack::{HypervisorKind, LayerDefinition, LayerSpec, registry};

use super::{Finding, State, finding};

/// One finding for each such layer.
pub(super) fn findings() -> Vec<Finding> {
    let hosted = registry().iter().filter_map(|layer| Some((layer, kind(layer)?, layer.hosted()?)));
    hosted
        .filter_map(|(layer, kind, hosted)| Some(of_layer(layer, kind, hosted, hosted_here(kind)?)))
        .collect()
}

fn kind(layer: &LayerSpec) -> Option<HypervisorKind> {
    match &layer.definition {
        LayerDefinition::Hypervisor(spec) => Some(spec.kind),
        _ => None,
    }
}

fn of_layer(
    layer: &LayerSpec,
    kind: HypervisorKind,
    hosted: &HostedSpec,
    here: Result<String, Refusal>,
) -> Finding {
    let purpose = format!("{} with --on this", layer.name);
    let refusal = match here {
        Ok(found) => return finding(layer.name, State::Ok, found, purpose),
        Err(refusal) => refusal,
    };
    let tool = hypervisor(kind).program();
    match refusal.cause {
        Cause::NotInstalled { program } if program == tool => finding(
            layer.name,
            State::Limited,
            format!("{tool} is not installed"),
            format!("{}   (for {purpose}{})", hosted.source, in_the_lab(hosted)),
        ),
        _ => finding(layer.name, State::Limited, refusal.message, format!("{purpose} needs it")),
    }
}

/// How emulated hosts get it.
fn in_the_lab(hosted: &HostedSpec) -> String {
    hosted
        .lab_pack
        .map_or_else(String::new, |pack| format!("; for emulated hosts: nestor lab pack {}", pack.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(here: Result<String, Refusal>) -> Finding {
        let layer = registry().iter().find(|layer| layer.name == "vbox").unwrap();
        of_layer(layer, kind(layer).unwrap(), layer.hosted().unwrap(), here)
    }

    #[test]
    fn what_is_missing_comes_with_where_to_get_it() {
        let missing = |program: &str, words: &str| {
            said(Err(Refusal::new(Cause::NotInstalled { program: program.to_owned() }, words)))
        };
        let tool = missing("VBoxManage", "the program `VBoxManage` is not installed on this machine");
        assert_eq!((tool.state, tool.found.as_str()), (State::Limited, "VBoxManage is not installed"));
        assert!(tool.advice.starts_with("apt-get install virtualbox"), "{}", tool.advice);
        assert!(
            tool.advice.ends_with("; for emulated hosts: nestor lab pack virtualbox)"),
            "{}",
            tool.advice
        );
        let besides = missing("xorriso", "xorriso is not installed: apt-get install xorriso");
        assert_eq!(besides.found, "xorriso is not installed: apt-get install xorriso");
        assert_eq!(said(Ok("VirtualBox 7.2.22".into())).state, State::Ok);
    }

    #[test]
    fn every_hosted_hypervisor_is_looked_for() {
        let subjects: Vec<String> = findings().into_iter().map(|found| found.subject).collect();
        assert_eq!(subjects, ["vbox", "vmware"]);
    }
}
