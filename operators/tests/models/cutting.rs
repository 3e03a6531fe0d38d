//! Models that are cut give what whole models give: at each boundary between ten blocks, and in a chain of all ten.
//!
//! What is compared is the model's outputs, number by number, for a real picture. "Relative" is the largest difference
//! over the largest magnitude of the same output: outputs mix logits, sizes and scores, whose small values carry the
//! rounding error of large ones.

use weir_flow::{Element, Inference, PartitionLoader, PartitionedModel, Tensor};
use weir_operators::{LayerChain, OnnxModel, OnnxPartitionLoader, PartitionedOnnx};
use weir_planner::group_layers;

use super::*;

/// Model, head, picture. No head reads the last one yet: it is fed by hand.
const MODELS: &[(&str, Option<&str>, &str)] = &[
    ("yolox_nano_416", Some("yolox"), "darknet_dog.jpg"),
    ("mobilefacenet_112", Some("embed"), "face_obama1.jpg"),
    ("shufflenet_v2_int8", Some("classify"), "darknet_dog.jpg"),
    ("bodypix_x050_s16", Some("keypoints"), "darknet_person.jpg"),
    (TEXT, None, "ocr_issue_170.png"),
];
const TEXT: &str = "ppocr_en_v3_det";

/// Maximum error of an output, relative to its largest magnitude.
const LIMIT: f32 = 1e-5;

fn item(assets: &Path, picture: &str) -> Item {
    Item {
        frame: frame(&assets.join("images").join(picture)),
        region: Region::Whole,
        object: None,
        class: None,
    }
}

fn model(assets: &Path, name: &str, head: &str) -> OnnxModel {
    OnnxModel::load(&LoadRequest {
        name,
        file: ModelFile::Path(assets.join(format!("models/{name}.onnx"))),
        head,
        settings: &names(head),
        max_batch: 2,
        dump: None,
    })
    .expect("loads")
}

/// Side in pixels for inputs of free size, of models without a head.
const SIDE: usize = 640;

fn open(assets: &Path, (name, head, _): (&str, Option<&str>, &str)) -> LayerChain {
    match head {
        Some(head) => model(assets, name, head).layer_chain().expect("layers"),
        None => {
            let bytes = std::fs::read(assets.join(format!("models/{name}.onnx"))).expect("readable");
            LayerChain::open(name, &bytes, Some(SIDE), 2).expect("opens")
        }
    }
}

/// The model in ten blocks, and its inputs for the picture.
fn case(assets: &Path, named: (&str, Option<&str>, &str)) -> (PartitionedOnnx, Vec<Tensor>) {
    let (_, head, picture) = named;
    let blocked = divided(open(assets, named), 10);
    if head.is_some() {
        let mut ends = blocked.pre_post().expect("ends");
        let inputs = ends.preprocess(&[item(assets, picture)]).expect("prepares");
        return (blocked, inputs);
    }
    let mut inputs = blocked.layer_chain().blank_inputs(1);
    let picture = image::open(assets.join("images").join(picture)).expect("picture");
    let picture = picture
        .resize_exact(SIDE as u32, SIDE as u32, image::imageops::FilterType::Triangle)
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

/// Blocks of the model, by its own times.
fn divided(chain: LayerChain, blocks: usize) -> PartitionedOnnx {
    let times = chain.layer_times_us(1, 3).expect("times");
    let bytes = chain.boundary_bytes(true).expect("bytes");
    let boundaries = chain.boundaries().expect("boundaries");
    let choose = |boundaries: &[bool]| {
        let allowed: Vec<Option<u64>> = bytes
            .iter()
            .zip(boundaries)
            .map(|(bytes, allowed)| allowed.then_some(*bytes))
            .collect();
        group_layers(&times, &allowed, blocks)
    };
    let settled = chain.validate_cut(boundaries, choose).expect("settles");
    for over in &settled.rejected {
        println!("not cut before layer {}: parts {}", over.layer, over.reason);
    }
    let starts = &settled.starts;
    assert_eq!(starts.len(), blocks);
    println!(
        "{} layers, {} boundaries, cut before {:?}, KiB {:?}",
        times.len(),
        settled.boundaries.iter().filter(|allowed| **allowed).count(),
        &starts[1..],
        starts[1..]
            .iter()
            .map(|start| bytes[start - 1] / 1024)
            .collect::<Vec<_>>()
    );
    chain.partition(starts).expect("divides")
}

/// Runs the model in parts that end at `ends`.
fn run_chain(blocked: &PartitionedOnnx, ends: &[usize], half: bool, inputs: &[Tensor]) -> Vec<Tensor> {
    let mut tensors = inputs.to_vec();
    let mut from = 0;
    for end in ends {
        let partition = blocked.partition(from..*end).expect("partition");
        let mut partition = OnnxPartitionLoader::default()
            .load(&partition, DeviceKind::Cpu, half)
            .expect("loads");
        tensors = partition.run(tensors).expect("runs");
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

fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |most, value| most.max(value.abs()))
}

/// Largest difference, absolute and relative to the largest magnitude of the same output.
fn difference(whole: &[Tensor], cut: &[Tensor]) -> (f32, f32) {
    assert_eq!(whole.len(), cut.len());
    let mut most = (0.0_f32, 0.0_f32);
    for (whole, cut) in whole.iter().zip(cut) {
        assert_eq!((&whole.name, &whole.shape), (&cut.name, &cut.shape));
        let (whole, cut) = (floats(whole), floats(cut));
        let largest = largest(&whole);
        for (whole, cut) in whole.iter().zip(&cut) {
            let off = (whole - cut).abs();
            most = (most.0.max(off), most.1.max(off / largest.max(f32::MIN_POSITIVE)));
        }
    }
    most
}

#[test]
fn partitions_equal_the_whole_model() {
    let Some(assets) = assets() else { return };
    for named in MODELS {
        let (blocked, inputs) = case(&assets, *named);
        let whole = run_chain(&blocked, &[10], false, &inputs);
        let is_seen = whole.iter().all(|output| largest(&floats(output)) > 0.01);
        assert!(is_seen, "a picture without anything in it shows nothing");
        let all: Vec<usize> = (1..=10).collect();
        let mut cuts: Vec<Vec<usize>> = (1..10).map(|cut| vec![cut, 10]).collect();
        cuts.push(all);
        for half in [false, true] {
            let (mut absolute, mut relative) = (0.0_f32, 0.0_f32);
            for cuts in &cuts {
                let off = difference(&whole, &run_chain(&blocked, cuts, half, &inputs));
                (absolute, relative) = (absolute.max(off.0), relative.max(off.1));
            }
            println!(
                "{}, half {half}: absolute {absolute:e}, relative {relative:e}",
                named.0
            );
            assert!(half || relative <= LIMIT, "{}: {relative}", named.0);
        }
    }
}

#[test]
#[ignore = "minutes: every boundary between layers, not only those between ten blocks"]
fn partitions_at_any_boundary_equal_the_whole_model() {
    let Some(assets) = assets() else { return };
    for named in MODELS {
        let (blocked, inputs) = case(&assets, *named);
        let whole = run_chain(&blocked, &[10], false, &inputs);
        drop(blocked);
        let chain = open(&assets, *named);
        let boundaries = chain.boundaries().expect("boundaries");
        let legal: Vec<usize> = (1..chain.layer_count())
            .filter(|layer| boundaries[layer - 1])
            .collect();
        let found = chain.rejected_boundaries(&legal).expect("the whole model runs");
        let (mut most, mut out, mut wrong) = (0.0_f32, 0.0_f32, Vec::new());
        for layer in &legal {
            let halves = open(&assets, *named).partition(&[0, *layer]).expect("divides");
            let (_, off) = difference(&whole, &run_chain(&halves, &[1, 2], false, &inputs));
            let passed_over = found.iter().any(|over| over.layer == *layer);
            let kind = if passed_over { &mut out } else { &mut most };
            *kind = kind.max(off);
            if !passed_over && off > LIMIT {
                wrong.push((*layer, off));
            }
        }
        println!(
            "{}: {} boundaries, relative {most:e}; {} passed over before layers {:?}, relative {out:e}",
            named.0,
            legal.len(),
            found.len(),
            found.iter().map(|over| over.layer).collect::<Vec<_>>()
        );
        assert_eq!(wrong, [], "{}", named.0);
    }
}

/// Other models of the pack: the side for sizes that they leave free, a picture, and what its black and white become.
const OTHERS: &[(&str, usize, &str, (f32, f32))] = &[
    ("yunet_n_320", 320, "face_obama1.jpg", (0.0, 255.0)),
    ("face_mesh_192", 192, "face_obama1.jpg", (0.0, 1.0)),
    ("nanodet_m_320", 320, "darknet_dog.jpg", (-2.0, 2.0)),
    ("hyperlpr_y5fu_320", 320, "darknet_dog.jpg", (0.0, 1.0)),
    ("hyperlpr_platecls_96", 96, "darknet_dog.jpg", (0.0, 1.0)),
    ("lprnet_plate_24x94", 94, "darknet_dog.jpg", (0.0, 255.0)),
    ("person_reid_retail_0288", 256, "darknet_person.jpg", (0.0, 255.0)),
];

/// A picture in the model's layout.
fn pictured(assets: &Path, chain: &LayerChain, picture: &str, (black, white): (f32, f32)) -> Vec<Tensor> {
    let mut inputs = chain.blank_inputs(1);
    let (height, width, last) = match inputs[0].shape.as_slice() {
        [_, 3, height, width] => (*height, *width, false),
        [_, height, width, 3] => (*height, *width, true),
        other => panic!("no picture has shape {other:?}"),
    };
    let picture = image::open(assets.join("images").join(picture)).expect("picture");
    let filter = image::imageops::FilterType::Triangle;
    let picture = picture.resize_exact(width as u32, height as u32, filter);
    let bytes = picture.to_rgb8().into_raw();
    let pixels = height * width;
    let value = |at: usize| {
        let byte = if last {
            bytes[at]
        } else {
            bytes[at % pixels * 3 + at / pixels]
        };
        black + f32::from(byte) / 255.0 * (white - black)
    };
    inputs[0].data = (0..3 * pixels).flat_map(|at| value(at).to_le_bytes()).collect();
    inputs
}

#[test]
fn other_models_in_five_blocks_equal_the_whole_model() {
    let Some(assets) = assets() else { return };
    for (name, side, picture, range) in OTHERS {
        let bytes = std::fs::read(assets.join(format!("models/{name}.onnx"))).expect("readable");
        let blocked = divided(LayerChain::open(name, &bytes, Some(*side), 1).expect("opens"), 5);
        let inputs = pictured(&assets, blocked.layer_chain(), picture, *range);
        let whole = run_chain(&blocked, &[5], false, &inputs);
        let is_seen = whole.iter().any(|output| largest(&floats(output)) > 0.01);
        assert!(is_seen, "a picture without anything in it shows nothing");
        let mut cuts: Vec<Vec<usize>> = (1..5).map(|cut| vec![cut, 5]).collect();
        cuts.push((1..=5).collect());
        let off = cuts
            .iter()
            .map(|cuts| difference(&whole, &run_chain(&blocked, cuts, false, &inputs)).1);
        let off = off.fold(0.0, f32::max);
        println!("{name}: relative {off:e}");
        assert!(off <= LIMIT, "{name}: {off}");
    }
}

/// Inferences that the head decodes from a batch that went through the model in parts.
fn decoded(blocked: &PartitionedOnnx, ends: &[usize], half: bool, items: &[Item]) -> Vec<Inference> {
    let mut head = blocked.pre_post().expect("ends");
    let inputs = head.preprocess(items).expect("prepares");
    let outputs = run_chain(blocked, ends, half, &inputs);
    head.postprocess(items, &outputs).expect("decodes")
}

#[test]
fn detections_through_partitions_equal_those_of_the_session() {
    let Some(assets) = assets() else { return };
    let model = model(&assets, "yolox_nano_416", "yolox");
    let blocked = divided(model.layer_chain().expect("layers"), 10);
    let items = ["darknet_dog.jpg", "darknet_horses.jpg"].map(|picture| item(&assets, picture));
    let mut session = model.open(DeviceKind::Cpu).expect("session");
    let whole = session.run(&items, &mut |_| ()).expect("runs");
    let all: Vec<usize> = (1..=10).collect();
    let exact = decoded(&blocked, &all, false, &items);
    let mut least = 1.0_f32;
    let mut cuts: Vec<Vec<usize>> = (1..10).map(|cut| vec![cut, 10]).collect();
    cuts.push(all);
    for cuts in cuts {
        let halved = decoded(&blocked, &cuts, true, &items);
        for ((whole, exact), halved) in whole.iter().zip(&exact).zip(&halved) {
            assert!(!whole.objects.is_empty());
            assert_eq!(whole.objects.len(), exact.objects.len());
            assert_eq!(whole.objects.len(), halved.objects.len());
            for ((whole, exact), halved) in whole.objects.iter().zip(&exact.objects).zip(&halved.objects) {
                assert_eq!((&whole.class, &whole.class), (&exact.class, &halved.class));
                assert!(whole.rect.iou(&exact.rect) > 0.9999);
                least = least.min(whole.rect.iou(&halved.rect));
            }
        }
    }
    println!("half precision at all boundaries: least IoU {least}");
    assert!(least >= 0.99);
}

#[test]
fn partitions_refuse_tensors_that_do_not_fit() {
    let Some(assets) = assets() else { return };
    let blocked = divided(
        model(&assets, "mobilefacenet_112", "embed")
            .layer_chain()
            .expect("layers"),
        10,
    );
    let load = |partition: &[u8]| OnnxPartitionLoader::default().load(partition, DeviceKind::Cpu, true);
    let refused = |partition: &[u8]| load(partition).map(|_| ()).expect_err("refused").to_string();
    assert!(refused(b"half a message").contains("no ONNX file"));
    let second = blocked.partition(1..10).expect("partition");
    assert!(refused(&second[..second.len() / 2]).contains("no ONNX file"));
    for none in [3..3, 9..11, 12..13] {
        assert!(blocked.partition(none).is_err());
    }
    let items = [item(&assets, "face_obama1.jpg")];
    let mut ends = blocked.pre_post().expect("ends");
    let inputs = ends.preprocess(&items).expect("prepares");
    let sent = run_chain(&blocked, &[1], true, &inputs);
    let mut partition = load(&second).expect("loads");
    let lost = partition
        .run(Vec::new())
        .map(|_| ())
        .expect_err("refused")
        .to_string();
    assert!(lost.contains("is missing"), "{lost}");
    let mut short = sent.clone();
    short[0].data.pop();
    let short = partition.run(short).map(|_| ()).expect_err("refused").to_string();
    assert!(short.contains("bytes"), "{short}");
    let mut other = sent.clone();
    other[0].element = Element::I32;
    let twice = other[0].data.len() * 2;
    other[0].data.resize(twice, 0);
    let other = partition.run(other).map(|_| ()).expect_err("refused").to_string();
    assert!(other.contains("expects F32"), "{other}");
    let outputs = partition.run(sent).expect("a partition works after an error");
    assert_eq!(ends.postprocess(&items, &outputs).expect("decodes").len(), 1);
    assert!(ends.postprocess(&items, &[]).is_err());
    assert!(ends.postprocess(&items, &inputs).is_err());
}
