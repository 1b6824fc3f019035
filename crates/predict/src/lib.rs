//! What a load will reach on another stack, from what was measured: six methods, the null models beside them, and how sure that
//! is.
//!
//! A [`Question`] and the [`Evidence`] go in, an [`Answer`] comes out. Each method is one file under `methods/` and one line in
//! [`methods::METHODS`]; it gives a number or says what it lacks. How far off a method has been where the truth is in the
//! evidence decides how much it counts ([`calibration`]). This crate knows neither files nor processes.

pub mod aims;
pub mod answer;
pub mod calibration;
mod elsewhere;
pub mod error_parts;
pub mod evidence;
mod hiding;
mod judgement;
mod known;
pub mod learnt_model;
mod load;
mod load_matrix;
pub mod matrix;
pub mod mechanism;
pub mod methods;
mod missing;
mod noise;
pub mod nulls;
mod numbers;
pub mod residual;
mod scaled;
mod term_errors;
mod trust;
pub mod validation;
mod verification;

pub use aims::Aim;
pub use answer::{Answer, Grounds, Trusted, answer};
pub use elsewhere::{missing_here, on_other_processors, only_elsewhere};
pub use error_parts::{CellError, Common, CommonError, ErrorParts, error_parts};
pub use evidence::{Evidence, MeasuredLoad, Question, Reference, Shape};
pub use judgement::{Judged, Judgement};
pub use learnt_model::{Expected, KeptWeights, Knowledge};
pub use load::{Asked, Load, QuestionError};
pub use load_matrix::{CompletedMatrix, Incomplete, LoadMatrix, Suggestion, load_matrix};
pub use matrix::{Matrix, MatrixAnswer};
pub use mechanism::{Demand, Term};
pub use methods::{METHODS, Method, MethodId, Predicted};
pub use missing::Missing;
pub use noise::{Floor, Noise};
pub use term_errors::{ErrorOf, TermError};
pub use trust::{ByLearner, Learner, Trust};
pub use validation::{Held, Scores, Validation, validate};
pub use verification::{RatedRun, Verification};
