//! Managers of a cloud: programs that start instances of images on nodes, and end them. Nestor asks them for an instance, follows what they
//! say of it, and ends it.
//!
//! [`Manager`] is what all of them can be asked. [`Ec2`] and [`OpenNebula`] say that in the words of their interfaces, and [`Curl`] carries
//! the words. [`follow`] goes through the lives of instances, and leaves none behind.

mod curl;
mod ec2;
mod error;
mod follow;
mod instance;
mod manager;
mod opennebula;
mod xml;

pub use curl::{Answer, Curl, Login, PROGRAM, Post, Transport, curl_is_here};
pub use ec2::{Ec2, Ec2Login, InstanceSeen, instances_of, started_of};
pub use error::ManagerError;
pub use follow::{Begin, Clock, Fault, FaultCause, Followed, Left, LeftOf, Pace, follow};
pub use instance::{InstanceId, ManagedState, Phase, Recorded, Sight, Token};
pub use manager::{Ending, Manager};
pub use opennebula::{
    Logged, OneLogin, OpenNebula, VmSeen, begins_in_log, log_file, reply_of, state_of, template_named, vm_of,
    vms_named,
};
