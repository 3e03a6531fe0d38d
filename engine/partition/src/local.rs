//! Workers of this process, by number: no global registry, whoever wants to reach them is handed this.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::worker::Core;

/// Workers of this process that can reach each other without a network.
#[derive(Clone, Default)]
pub struct Locals(Arc<Mutex<BTreeMap<u32, Weak<Core>>>>);

impl Locals {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u32, Weak<Core>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self, core: &Arc<Core>) -> u32 {
        let mut all = self.all();
        let number = all.last_key_value().map_or(0, |(last, _)| last + 1);
        all.insert(number, Arc::downgrade(core));
        number
    }

    pub(crate) fn find(&self, number: u32) -> Option<Arc<Core>> {
        self.all().get(&number)?.upgrade()
    }
}

impl fmt::Debug for Locals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.all().keys()).finish()
    }
}
