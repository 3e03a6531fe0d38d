//! Whatever comes is a message or an error, and what is sent is what comes.

use std::io::{Cursor, Read};
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use weir_flow::{
    Element, GeneratedToken, Sampling, SequenceCommand, SequenceEnd, SequenceSpec, SequenceStep, Tensor,
};
use weir_types::{BatchId, ModuleId, SequenceId, Span, Timestamp};

use super::codes::ELEMENTS;
use super::*;
use crate::node::NodeName;

fn moment() -> impl Strategy<Value = Timestamp> {
    any::<u64>().prop_map(Timestamp::from_micros)
}

fn usage() -> impl Strategy<Value = Usage> {
    (moment(), moment()).prop_map(|(from, to)| Usage { from, to })
}

fn times(count: usize) -> impl Strategy<Value = Vec<StageTimes>> {
    vec(
        (usage(), usage()).prop_map(|(transfer, run)| StageTimes { transfer, run }),
        count,
    )
}

fn key() -> impl Strategy<Value = BatchKey> {
    (any::<u32>(), any::<u32>(), any::<u64>()).prop_map(|(graph, module, batch)| BatchKey {
        graph,
        module: ModuleId(module),
        batch: BatchId(batch),
    })
}

fn tensor() -> impl Strategy<Value = Tensor> {
    let element = (0..ELEMENTS.len()).prop_map(|at| ELEMENTS[at].0);
    (".{0,12}", element, vec(0..6_usize, 0..4), any::<u8>()).prop_map(|(name, element, shape, fill)| {
        let count: usize = shape.iter().product();
        Tensor {
            name: name.into(),
            element,
            data: vec![fill; count * element.bytes()],
            shape,
        }
    })
}

fn hop() -> impl Strategy<Value = Hop> {
    let address = prop_oneof![
        any::<u32>().prop_map(Address::Local),
        "[a-z0-9._-]{1,64}".prop_map(|name| Address::Node(NodeName::new(&name).unwrap())),
        any::<std::net::SocketAddrV4>().prop_map(|address| Address::Tcp(address.into())),
    ];
    let moments = (moment(), moment());
    (address, any::<u32>(), any::<u32>(), moments).prop_map(|(address, share, partition, (booked, sent))| {
        Hop {
            address,
            share,
            partition: PartitionId(partition),
            booked,
            sent,
        }
    })
}

fn input() -> impl Strategy<Value = StageInput> {
    (0..5_usize).prop_flat_map(|stage| {
        let head = (any::<u64>(), key(), any::<u32>(), any::<u32>(), any::<u32>());
        let rest = (
            moment(),
            vec(hop(), 0..4),
            times(stage),
            moment(),
            vec(tensor(), 0..4),
        );
        (head, rest).prop_map(
            move |((engine, key, items, share, partition), (booked, rest, times, began, tensors))| {
                StageInput {
                    engine,
                    key,
                    items,
                    stage: stage as u32,
                    share,
                    partition: PartitionId(partition),
                    booked,
                    rest,
                    times,
                    began,
                    tensors,
                }
            },
        )
    })
}

fn failure() -> impl Strategy<Value = BatchFailure> {
    prop_oneof![
        ".{0,40}".prop_map(BatchFailure::Session),
        ".{0,40}".prop_map(BatchFailure::Panicked),
        Just(BatchFailure::NotHeld),
        Just(BatchFailure::QueueFull),
        ".{0,40}".prop_map(BatchFailure::Unreachable),
        ".{0,40}".prop_map(BatchFailure::WorkerDown),
        Just(BatchFailure::Lost),
    ]
}

fn load() -> impl Strategy<Value = LoadPartition> {
    let declared = vec(
        (any::<u32>(), any::<u64>()).prop_map(|(size, micros)| (size, Span::from_micros(micros))),
        0..4,
    );
    let model = vec(any::<u8>(), 0..200).prop_map(Arc::new);
    (
        any::<u32>(),
        any::<u64>(),
        vec(any::<u32>(), 0..4),
        (any::<bool>(), any::<u32>()),
        declared,
        model,
    )
        .prop_map(
            |(partition, plan, shares, (half, batch), declared, model)| LoadPartition {
                partition: PartitionId(partition),
                plan,
                shares,
                half,
                batch,
                declared,
                model,
            },
        )
}

fn welcome() -> impl Strategy<Value = Welcome> {
    let held = vec(any::<u32>().prop_map(PartitionId), 0..5);
    (".{0,20}", any::<u32>(), any::<bool>(), any::<u32>(), held).prop_map(
        |(class, shares, emulated, max_message_bytes, held)| Welcome {
            class,
            shares,
            emulated,
            max_message_bytes,
            held,
        },
    )
}

fn tokens() -> impl Strategy<Value = Vec<u32>> {
    vec(any::<u32>(), 0..6)
}

fn command() -> impl Strategy<Value = SequenceCommand> {
    let id = || any::<u64>().prop_map(SequenceId);
    let put = (
        id(),
        tokens(),
        tokens(),
        any::<[u32; 2]>(),
        vec(".{0,9}", 0..3),
        -9.0_f32..9.0,
    );
    prop_oneof![
        put.prop_map(
            |(sequence, prompt, generated, [max_tokens, top_k], stop, temperature)| {
                SequenceCommand::Put {
                    sequence,
                    spec: SequenceSpec {
                        prompt,
                        max_tokens,
                        stop: stop.into(),
                        sampling: Sampling {
                            temperature,
                            top_k,
                            seed: u64::from(top_k),
                        },
                    },
                    generated,
                }
            }
        ),
        id().prop_map(SequenceCommand::Remove),
        id().prop_map(SequenceCommand::Evict),
        (id(), any::<u32>()).prop_map(|(sequence, tokens)| SequenceCommand::KeepPrefix { sequence, tokens }),
        (id(), any::<u32>()).prop_map(|(sequence, tokens)| SequenceCommand::ReusePrefix { sequence, tokens }),
    ]
}

fn instance_step() -> impl Strategy<Value = InstanceStep> {
    let step = (any::<u64>(), any::<u32>()).prop_map(|(id, tokens)| SequenceStep {
        sequence: SequenceId(id),
        tokens,
    });
    (vec(command(), 0..5), vec(step, 0..5)).prop_map(|(commands, steps)| InstanceStep { commands, steps })
}

fn generated() -> impl Strategy<Value = GeneratedToken> {
    let end = prop_oneof![
        Just(None),
        Just(Some(SequenceEnd::StopToken)),
        Just(Some(SequenceEnd::StopText)),
        Just(Some(SequenceEnd::MaxTokens)),
    ];
    (any::<u64>(), any::<u32>(), 0.0_f32..1.0, end).prop_map(|(id, token, probability, end)| GeneratedToken {
        sequence: SequenceId(id),
        token,
        probability,
        end,
    })
}

pub(super) fn message() -> impl Strategy<Value = Message> {
    let what = prop_oneof![Just(Resource::Transfer), Just(Resource::Run)];
    let partition = || any::<u32>().prop_map(PartitionId);
    prop_oneof![
        any::<u64>().prop_map(|engine| Message::Hello { engine }),
        Just(Message::Peer),
        welcome().prop_map(Message::Welcome),
        ".{0,40}".prop_map(|reason| Message::Refused { reason }),
        load().prop_map(Message::LoadPartition),
        (partition(), any::<u64>()).prop_map(|(partition, took)| Message::Loaded {
            partition,
            took: Span::from_micros(took)
        }),
        (partition(), ".{0,40}").prop_map(|(partition, reason)| Message::NotLoaded { partition, reason }),
        partition().prop_map(|partition| Message::Unload { partition }),
        any::<u64>().prop_map(|plan| Message::Activate { plan }),
        any::<u64>().prop_map(|plan| Message::Activated { plan }),
        input().prop_map(Message::Run),
        input().prop_map(Message::Feature),
        (key(), any::<u32>(), what, usage()).prop_map(|(key, stage, what, usage)| Message::Used {
            key,
            stage,
            what,
            usage
        }),
        (key(), times(3), vec(tensor(), 0..4)).prop_map(|(key, times, outputs)| Message::Done {
            key,
            times,
            outputs
        }),
        (key(), any::<u32>(), failure()).prop_map(|(key, stage, failure)| Message::Failed {
            key,
            stage,
            failure
        }),
        (moment(), any::<Option<i64>>()).prop_map(|(sent, offset)| Message::Ping { sent, offset }),
        (moment(), moment()).prop_map(|(sent, at)| Message::Pong { sent, at }),
        Just(Message::Generate),
        vec(any::<u8>(), 0..200).prop_map(|model| Message::LoadGenerator {
            model: Arc::new(model)
        }),
        (any::<u32>(), any::<u32>()).prop_map(|(vocabulary, max_sequence_tokens)| {
            Message::GeneratorLoaded {
                vocabulary,
                max_sequence_tokens,
            }
        }),
        instance_step().prop_map(Message::Step),
        (any::<u64>(), vec(generated(), 0..5)).prop_map(|(took, tokens)| Message::Stepped {
            took: Span::from_micros(took),
            tokens
        }),
        ".{0,40}".prop_map(|reason| Message::StepFailed { reason }),
    ]
}

pub(super) fn written(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_message(&mut bytes, message, Limits::default()).unwrap();
    bytes
}

/// Reader that records the largest buffer offered beyond the available bytes, which is memory allocated in
/// advance.
struct Watched<'a> {
    bytes: &'a [u8],
    came: usize,
    ahead_most: usize,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.ahead_most = self.ahead_most.max(buffer.len().saturating_sub(self.came));
        let read = self.bytes.read(buffer)?;
        self.came += read;
        Ok(read)
    }
}

proptest! {
    #[test]
    fn what_is_sent_is_what_comes(messages in vec(message(), 1..4)) {
        let mut bytes = Vec::new();
        for message in &messages {
            let before = bytes.len();
            write_message(&mut bytes, message, Limits::default()).unwrap();
            prop_assert_eq!((bytes.len() - before) as u64, wire_bytes(message));
        }
        let mut from = Cursor::new(bytes);
        for message in messages {
            prop_assert_eq!(read_message(&mut from, Limits::default()).unwrap(), message);
        }
        prop_assert!(matches!(read_message(&mut from, Limits::default()), Err(WireError::Closed)));
    }

    #[test]
    fn no_bytes_make_it_panic_or_set_memory_aside(head in any::<(u32, u8)>(), body in vec(any::<u8>(), 0..400)) {
        let limits = Limits { max_message_bytes: 8 << 20, max_small_bytes: 1 << 10 };
        let mut bytes = (head.0 % (10 << 20)).to_le_bytes().to_vec();
        bytes.push(head.1 % 20);
        bytes.extend(body);
        let mut from = Watched { bytes: &bytes, came: 0, ahead_most: 0 };
        let _ = read_message(&mut from, limits);
        prop_assert!(from.ahead_most <= 1 << 20, "{} bytes ahead of what came", from.ahead_most);
    }

    #[test]
    fn a_message_that_was_tampered_with_is_a_message_or_an_error(
        message in message(), at in any::<prop::sample::Index>(), to in any::<u8>()
    ) {
        let mut bytes = written(&message);
        let at = at.index(bytes.len());
        bytes[at] = to;
        let mut from = Watched { bytes: &bytes, came: 0, ahead_most: 0 };
        let _ = read_message(&mut from, Limits::default());
        prop_assert!(from.ahead_most <= 1 << 20);
    }

    #[test]
    fn half_a_message_is_broken(message in message(), at in any::<prop::sample::Index>()) {
        let bytes = written(&message);
        let at = 1 + at.index(bytes.len() - 1);
        prop_assume!(at < bytes.len());
        let read = read_message(&mut Cursor::new(&bytes[..at]), Limits::default());
        prop_assert!(matches!(read, Err(WireError::Broken(_))), "{:?}", read);
    }
}

fn feature() -> Message {
    Message::Feature(StageInput {
        engine: 1,
        key: BatchKey {
            graph: 0,
            module: ModuleId(0),
            batch: BatchId(0),
        },
        items: 1,
        stage: 0,
        share: 0,
        partition: PartitionId(0),
        booked: Timestamp::ZERO,
        rest: Vec::new(),
        times: Vec::new(),
        began: Timestamp::ZERO,
        tensors: vec![Tensor {
            name: "x".into(),
            element: Element::F32,
            shape: vec![2, 3],
            data: vec![0; 24],
        }],
    })
}

#[test]
fn a_length_above_the_bound_is_refused_before_anything_else() {
    let limits = Limits {
        max_message_bytes: 100,
        max_small_bytes: 50,
    };
    let claimed = |bytes: u32, kind: u8| {
        let mut frame = bytes.to_le_bytes().to_vec();
        frame.push(kind);
        read_message(&mut Cursor::new(frame), limits)
    };
    assert!(matches!(
        claimed(u32::MAX, 12),
        Err(WireError::TooLong { max: 100, .. })
    ));
    assert!(matches!(claimed(51, 16), Err(WireError::TooLong { max: 50, .. })));
    assert!(matches!(claimed(50, 16), Err(WireError::Broken(_))));
    let mut nothing = Vec::new();
    let sent = write_message(&mut nothing, &feature(), limits);
    assert!(matches!(sent, Err(WireError::TooLong { .. })) && nothing.is_empty());
}

#[test]
fn a_tensor_holds_what_its_shape_says() {
    let Message::Feature(mut input) = feature() else {
        unreachable!()
    };
    for shape in [vec![2, 4], vec![], vec![usize::MAX, usize::MAX, 2]] {
        input.tensors[0].shape = shape;
        let bytes = written(&Message::Feature(input.clone()));
        let read = read_message(&mut Cursor::new(bytes), Limits::default());
        assert!(matches!(read, Err(WireError::Bad { .. })), "{read:?}");
    }
}

#[test]
fn stages_and_their_times_agree() {
    let Message::Feature(mut input) = feature() else {
        unreachable!()
    };
    input.stage = 2;
    let read = read_message(
        &mut Cursor::new(written(&Message::Feature(input))),
        Limits::default(),
    );
    assert!(matches!(read, Err(WireError::Bad { .. })), "{read:?}");
}

#[test]
fn a_long_reason_is_cut() {
    let bytes = written(&Message::Refused {
        reason: "ü".repeat(10_000),
    });
    let Message::Refused { reason } = read_message(&mut Cursor::new(bytes), Limits::default()).unwrap()
    else {
        panic!("another message came")
    };
    assert!(reason.len() <= 4 << 10 && reason.chars().all(|c| c == 'ü'));
}

#[test]
fn strangers_and_other_versions_are_distinguished() {
    const NEXT: u16 = VERSION + 1;
    let mut bytes = Vec::new();
    write_preamble(&mut bytes).unwrap();
    assert!(read_preamble(&mut Cursor::new(&bytes)).is_ok());
    bytes[8] += 1;
    let read = read_preamble(&mut Cursor::new(&bytes));
    assert!(
        matches!(
            read,
            Err(WireError::Version {
                theirs: NEXT,
                ours: VERSION
            })
        ),
        "{read:?}"
    );
    let read = read_preamble(&mut Cursor::new(b"GET / HTTP/1.1"));
    assert!(matches!(read, Err(WireError::Magic)), "{read:?}");
    assert!(matches!(
        read_preamble(&mut Cursor::new(b"weir")),
        Err(WireError::Broken(_))
    ));
}

#[test]
fn probabilities_that_are_none_are_read_as_ones_and_temperatures_are_refused() {
    let token = |probability| GeneratedToken {
        sequence: SequenceId(1),
        token: 2,
        probability,
        end: None,
    };
    let sent = Message::Stepped {
        took: Span::ZERO,
        tokens: [f32::NAN, f32::INFINITY, -1.0, 0.5].map(token).into(),
    };
    let read = read_message(&mut Cursor::new(written(&sent)), Limits::default()).unwrap();
    let Message::Stepped { tokens, .. } = read else {
        panic!("another message came")
    };
    let probabilities: Vec<f32> = tokens.iter().map(|token| token.probability).collect();
    assert_eq!(probabilities, [0.0, 1.0, 0.0, 0.5]);
    let sent = Message::Step(InstanceStep {
        commands: vec![SequenceCommand::Put {
            sequence: SequenceId(1),
            spec: SequenceSpec {
                prompt: vec![1],
                max_tokens: 1,
                stop: Vec::new().into(),
                sampling: Sampling {
                    temperature: f32::NAN,
                    ..Sampling::default()
                },
            },
            generated: Vec::new(),
        }],
        steps: Vec::new(),
    });
    let read = read_message(&mut Cursor::new(written(&sent)), Limits::default());
    assert!(matches!(read, Err(WireError::Bad { .. })), "{read:?}");
}
