//! Models that are cut give what whole models give: at each boundary between ten blocks, and in a chain of all ten.
//!
//! What is compared is the model's outputs, number by number, for a real picture. "Relative" is the largest difference
//! over the largest magnitude of the same output: outputs mix logits, sizes and scores, whose small values carry the
//! rounding error of large ones.

use weir_flow::{Divided, Element, PartLoader, Tensor};
use weir_operators::{Blocked, Layered, OnnxModel, OnnxParts};
use weir_policy::plan::divide;

use super::*;

/// Model, head, picture. No head reads the last one yet: it is fed by hand.
const MODELS: &[(&str, Option<&str>, &str)] = &[
    ("yolox_nano_416", Some("yolox"), "darknet_dog.jpg"),
    ("mobilefacenet_112", Some("embed"), "face_obama1.jpg"),
    ("shufflenet_v2_int8", Some("classify"), "darknet_dog.jpg"),
    ("bodypix_x050_s16", Some("keypoints"), "darknet_person.jpg"),
    ("ppocr_en_v3_det", None, "ocr_en.jpg"),
];

fn item(assets: &Path, picture: &str) -> Item {
    Item {
        frame: frame(&assets.join("images").join(picture)),
        region: Region::Whole,
        object: None,
    }
}

fn model(assets: &Path, name: &str, head: &str) -> OnnxModel {
    OnnxModel::load(&LoadRequest {
        name,
        file: ModelFile::Path(assets.join(format!("models/{name}.onnx"))),
        head,
        settings: &Settings::default(),
        max_batch: 2,
        dump: None,
    })
    .expect("loads")
}

/// The model in ten blocks, and its inputs for the picture.
fn case(assets: &Path, (name, head, picture): (&str, Option<&str>, &str)) -> (Blocked, Vec<Tensor>) {
    if let Some(head) = head {
        let blocked = ten(model(assets, name, head).layered().expect("layers"));
        let mut ends = blocked.ends().expect("ends");
        let inputs = ends.prepare(&[item(assets, picture)]).expect("prepares");
        return (blocked, inputs);
    }
    let side = 320;
    let bytes = std::fs::read(assets.join(format!("models/{name}.onnx"))).expect("readable");
    let blocked = ten(Layered::open(name, &bytes, Some(side), 2).expect("opens"));
    let mut inputs = blocked.layered().sample(1);
    let picture = image::open(assets.join("images").join(picture)).expect("picture");
    let picture = picture
        .resize_exact(side as u32, side as u32, image::imageops::FilterType::Triangle)
        .to_rgb8();
    let plane = |channel: usize| {
        picture
            .pixels()
            .map(move |pixel| (f32::from(pixel[channel]) / 255.0 - 0.45) / 0.225)
    };
    let pixels = plane(2).chain(plane(1)).chain(plane(0));
    inputs[0].data = pixels.flat_map(f32::to_le_bytes).collect();
    (blocked, inputs)
}

/// Ten blocks of the model, by its own times.
fn ten(layered: Layered) -> Blocked {
    let times = layered.times(1, 3).expect("times");
    let bytes = layered.boundary_bytes(true).expect("bytes");
    let boundaries = layered.boundaries().expect("boundaries");
    let allowed: Vec<Option<u64>> = bytes
        .iter()
        .zip(&boundaries)
        .map(|(bytes, allowed)| allowed.then_some(*bytes))
        .collect();
    let starts = divide(&times, &allowed, 10);
    assert_eq!(starts.len(), 10);
    println!(
        "{} layers, {} boundaries, cut before {:?}, KiB {:?}",
        times.len(),
        boundaries.iter().filter(|allowed| **allowed).count(),
        &starts[1..],
        starts[1..]
            .iter()
            .map(|start| bytes[start - 1] / 1024)
            .collect::<Vec<_>>()
    );
    layered.divide(&starts).expect("divides")
}

/// Runs the model in parts that end at `ends`.
fn chain(blocked: &Blocked, ends: &[usize], half: bool, inputs: &[Tensor]) -> Vec<Tensor> {
    let mut tensors = inputs.to_vec();
    let mut from = 0;
    for end in ends {
        let part = blocked.part(from..*end).expect("part");
        let mut part = OnnxParts::default()
            .load(&part, DeviceKind::Cpu, half)
            .expect("loads");
        tensors = part.run(tensors).expect("runs");
        from = *end;
    }
    tensors
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    match tensor.element {
        Element::F32 => tensor
            .data
            .as_chunks()
            .0
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect(),
        Element::F16 => tensor
            .data
            .as_chunks()
            .0
            .iter()
            .map(|bytes| half::f16::from_le_bytes(*bytes).to_f32())
            .collect(),
        _ => tensor.data.iter().map(|byte| f32::from(*byte)).collect(),
    }
}

/// Largest difference, absolute and relative to the largest magnitude of the same output.
fn difference(whole: &[Tensor], cut: &[Tensor]) -> (f32, f32) {
    assert_eq!(whole.len(), cut.len());
    let mut most = (0.0_f32, 0.0_f32);
    for (whole, cut) in whole.iter().zip(cut) {
        assert_eq!((&whole.name, &whole.shape), (&cut.name, &cut.shape));
        let (whole, cut) = (floats(whole), floats(cut));
        let largest = whole.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
        for (whole, cut) in whole.iter().zip(&cut) {
            let off = (whole - cut).abs();
            most = (most.0.max(off), most.1.max(off / largest.max(f32::MIN_POSITIVE)));
        }
    }
    most
}

#[test]
fn parts_give_what_the_whole_model_gives() {
    let Some(assets) = assets() else { return };
    for named in MODELS {
        let (blocked, inputs) = case(&assets, *named);
        let whole = chain(&blocked, &[10], false, &inputs);
        let all: Vec<usize> = (1..=10).collect();
        let mut cuts: Vec<Vec<usize>> = (1..10).map(|cut| vec![cut, 10]).collect();
        cuts.push(all);
        for half in [false, true] {
            let offs: Vec<(f32, f32)> = cuts
                .iter()
                .map(|cuts| difference(&whole, &chain(&blocked, cuts, half, &inputs)))
                .collect();
            let most = |of: fn(&(f32, f32)) -> f32| offs.iter().map(of).fold(0.0, f32::max);
            let (absolute, relative) = (most(|off| off.0), most(|off| off.1));
            println!(
                "{}, half {half}: absolute {absolute:e}, relative {relative:e}; {offs:?}",
                named.0
            );
            assert!(half || relative <= 1e-5, "{}: {relative}", named.0);
        }
    }
}
