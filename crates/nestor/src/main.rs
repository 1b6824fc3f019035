//! The command line of Nestor.

fn main() {
    if nestor_machine::init::is_first_process() {
        nestor_machine::init::run();
    }
    let agent = nestor_machine::agent::Agent::new(&nestor_machine::agent::work_root()).expect("agent");
    agent.serve(std::io::stdin(), std::io::stdout());
}
