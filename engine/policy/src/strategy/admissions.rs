//! The list of admission rules: a rule is registered by one line here.

use serde::{Deserialize, Serialize};

use crate::admission::AdmissionRule;
use crate::baselines::admit_all::AdmitAll;
use crate::baselines::nexus::NexusScan;
use crate::baselines::overload_control::TimedOut;
use crate::baselines::queue_length::QueueLength;
use crate::baselines::shares::Shares;
use crate::pard::predictive::Predictive;

macro_rules! admissions {
    ($($name:literal => $rule:ident,)+) => {
        /// Rule that admits requests to a batch; in TOML a name, or a table with the name as `rule` and
        /// parameters.
        #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "rule")]
        pub enum BatchAdmission {
            $(
                #[doc = concat!("`", $name, "`, see its type.")]
                #[serde(rename = $name)]
                $rule($rule),
            )+
        }

        impl BatchAdmission {
            /// Names that an admission rule may have.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// The rule that decides.
            pub(crate) fn rule(&self) -> &dyn AdmissionRule {
                match self {
                    $(Self::$rule(rule) => rule,)+
                }
            }
        }
    };
}

admissions! {
    "none" => AdmitAll,
    "predictive" => Predictive,
    "shares" => Shares,
    "nexus" => NexusScan,
    "timed-out" => TimedOut,
    "queue-length" => QueueLength,
}
