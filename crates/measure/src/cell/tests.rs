use nestor_lab::{KernelPart, NetworkService};
use nestor_machine::Refusal;

use super::*;

fn refused(cause: Cause) -> MachineError {
    MachineError::Refused { machine: "guest".to_owned(), refusal: Refusal::new(cause, "as it says") }
}

fn in_layer(cause: Cause) -> FailureCause {
    CellError::Build(BuildError::Layer { layer: "kvm".to_owned(), source: refused(cause) }).cause()
}

#[test]
fn a_stack_is_not_possible_if_its_layer_is_refused_and_not_if_something_happened() {
    let ended = |ended| Cause::ProgramFailed { program: "mkfs.ext4".to_owned(), ended };
    for refusal in [Cause::NotMounted, Cause::NotSupported, Cause::NotPermitted, ended(ProgramEnd::Code(1))] {
        assert_eq!(in_layer(refusal), FailureCause::NotPossible);
    }
    for fault in [
        Cause::Other,
        Cause::NoDisk,
        ended(ProgramEnd::Signal(9)),
        ended(ProgramEnd::TimedOut { limit_s: 9 }),
    ] {
        assert_eq!(in_layer(fault), FailureCause::Other);
    }
    let gone = MachineError::Gone { machine: "guest".to_owned(), detail: "it ended".to_owned() };
    let gone = BuildError::Layer { layer: "kvm".to_owned(), source: gone };
    assert_eq!(CellError::Build(gone).cause(), FailureCause::MachineLost);
    assert_eq!(in_layer(Cause::MachineSilent), FailureCause::MachineLost);
    assert_eq!(in_layer(Cause::NotStarted), FailureCause::MachineLost);
    assert_eq!(in_layer(Cause::NoSpace), FailureCause::NoSpace);
    let room = BuildError::NoRoom { layer: "raw:size=40G".to_owned(), message: "full".to_owned() };
    let room = CellError::Build(room);
    assert_eq!((room.cause(), room.ends_alike()), (FailureCause::NoSpace, true));
}

#[test]
fn a_link_that_the_kernel_lacks_is_not_possible_and_one_in_the_way_of_a_server_is_another_time() {
    let cause = |problem| CellError::Build(LabProblem::Link(problem).into()).cause();
    let lacks = LinkProblem::KernelLacks { machine: String::new(), part: KernelPart::NfsServer, said: None };
    assert_eq!(cause(lacks), FailureCause::NotPossible);
    let runs = LinkProblem::ServiceRuns { machine: String::new(), service: NetworkService::Nfs, port: 2049 };
    assert_eq!(cause(runs), FailureCause::Other);
}

#[test]
fn beside_the_layers_only_a_mount_that_is_refused_says_that_a_stack_is_not_possible() {
    let cause = |cause| CellError::Machine(refused(cause)).cause();
    assert_eq!(cause(Cause::NotMounted), FailureCause::NotPossible);
    assert_eq!(cause(Cause::Other), FailureCause::Other);
    assert_eq!(cause(Cause::MachineLost), FailureCause::MachineLost);
    let missing = CellError::Machine(refused(Cause::NotInstalled { program: "fio".to_owned() }));
    assert_eq!((missing.cause(), missing.ends_alike()), (FailureCause::NotInstalled, true));
}
