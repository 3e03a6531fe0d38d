//! Categories of COCO: their ids run from 1 to 90 and leave ten out.

use std::collections::BTreeMap;

/// The 80 categories in the order of their ids; those that are left out are empty.
const COCO: [&str; 90] = [
    "person",
    "bicycle",
    "car",
    "motorcycle",
    "airplane",
    "bus",
    "train",
    "truck",
    "boat",
    "traffic light",
    "fire hydrant",
    "",
    "stop sign",
    "parking meter",
    "bench",
    "bird",
    "cat",
    "dog",
    "horse",
    "sheep",
    "cow",
    "elephant",
    "bear",
    "zebra",
    "giraffe",
    "",
    "backpack",
    "umbrella",
    "",
    "",
    "handbag",
    "tie",
    "suitcase",
    "frisbee",
    "skis",
    "snowboard",
    "sports ball",
    "kite",
    "baseball bat",
    "baseball glove",
    "skateboard",
    "surfboard",
    "tennis racket",
    "bottle",
    "",
    "wine glass",
    "cup",
    "fork",
    "knife",
    "spoon",
    "bowl",
    "banana",
    "apple",
    "sandwich",
    "orange",
    "broccoli",
    "carrot",
    "hot dog",
    "pizza",
    "donut",
    "cake",
    "chair",
    "couch",
    "potted plant",
    "bed",
    "",
    "dining table",
    "",
    "",
    "toilet",
    "",
    "tv",
    "laptop",
    "mouse",
    "remote",
    "keyboard",
    "cell phone",
    "microwave",
    "oven",
    "toaster",
    "sink",
    "refrigerator",
    "",
    "book",
    "clock",
    "vase",
    "scissors",
    "teddy bear",
    "hair drier",
    "toothbrush",
];

/// Ids by class.
#[derive(Debug, Clone)]
pub(super) struct Categories(BTreeMap<String, u64>);

impl Categories {
    /// In the order of `names`, or those of COCO.
    pub(super) fn new(names: Option<&[String]>) -> Self {
        let coco = || COCO.map(str::to_owned).to_vec();
        let names = names.map_or_else(coco, <[String]>::to_vec);
        let named = (1..).zip(names).filter(|(_, name)| !name.is_empty());
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
