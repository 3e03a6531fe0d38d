//! Categories of COCO: their ids run from 1 to 90 and leave ten out.

use std::collections::BTreeMap;

use crate::heads::labels::COCO;

/// Ids that no category has.
const LEFT_OUT: [u64; 10] = [12, 26, 29, 30, 45, 66, 68, 69, 71, 83];

/// Ids by class.
#[derive(Debug, Clone)]
pub(super) struct Categories(BTreeMap<String, u64>);

impl Categories {
    /// In the order of `names`, or those of COCO.
    pub(super) fn new(names: Option<&[String]>) -> Self {
        let coco = || {
            let ids = (1..).filter(|id| !LEFT_OUT.contains(id));
            ids.zip(COCO.iter().map(|name| (*name).to_owned())).collect()
        };
        let own = |names: &[String]| (1..).zip(names.iter().cloned()).collect();
        let categories: Vec<(u64, String)> = names.map_or_else(coco, own);
        let named = categories.into_iter().filter(|(_, name)| !name.is_empty());
        Self(named.map(|(id, name)| (name, id)).collect())
    }

    pub(super) fn id_of(&self, class: &str) -> Option<u64> {
        self.0.get(class).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_of_coco_have_its_ids() {
        let coco = Categories::new(None);
        assert_eq!(coco.0.len(), 80);
        let expected = [("person", 1), ("stop sign", 13), ("tv", 72), ("toothbrush", 90)];
        for (class, id) in expected {
            assert_eq!(coco.id_of(class), Some(id), "{class}");
        }
        assert_eq!(coco.id_of(""), None);
        let own = Categories::new(Some(&["car".to_owned(), "bus".to_owned()]));
        assert_eq!((own.id_of("bus"), own.id_of("person")), (Some(2), None));
    }
}
