//! Memory, order and running models.

use proptest::prelude::*;

use super::*;

fn spec(memory: u64, host_memory: u64, bytes: &[u64]) -> ResidencySpec {
    ResidencySpec {
        memory: Some(memory),
        host_memory,
        same_bytes: Vec::new(),
        models: bytes
            .iter()
            .map(|bytes| ModelMemory {
                device_bytes: *bytes,
                host_bytes: *bytes,
            })
            .collect(),
    }
}

fn step(residency: &mut Residency, event: ResidencyEvent) -> Vec<ResidencyEffect> {
    let mut effects = Vec::new();
    residency.step(event, &mut effects);
    effects
}

const A: ModelId = ModelId(0);
const B: ModelId = ModelId(1);
const C: ModelId = ModelId(2);

#[test]
fn the_least_valuable_model_that_does_not_run_is_closed() {
    let mut residency = Residency::new(&spec(20, 0, &[10, 10, 10]));
    for model in [A, B] {
        let effects = step(&mut residency, ResidencyEvent::Wanted(model));
        assert_eq!(effects, [ResidencyEffect::Open { model, warm: false }]);
        step(&mut residency, ResidencyEvent::Opened(model));
    }
    step(&mut residency, ResidencyEvent::Began(A));
    // A is worth less and runs.
    assert_eq!(
        step(&mut residency, ResidencyEvent::Wanted(C)),
        [ResidencyEffect::Close(B)]
    );
    assert_eq!(
        step(&mut residency, ResidencyEvent::Closed(B)),
        [ResidencyEffect::Open {
            model: C,
            warm: false
        }]
    );
    step(&mut residency, ResidencyEvent::Opened(C));
    step(&mut residency, ResidencyEvent::Began(C));
    // All run: it waits.
    assert_eq!(step(&mut residency, ResidencyEvent::Wanted(B)), []);
    assert_eq!(
        step(&mut residency, ResidencyEvent::Ended(C)),
        [ResidencyEffect::Close(C)]
    );
    assert_eq!(residency.used_bytes(), 20);
}

#[test]
fn a_model_larger_than_the_device_is_refused() {
    let mut residency = Residency::new(&spec(20, 0, &[30]));
    assert_eq!(
        step(&mut residency, ResidencyEvent::Wanted(A)),
        [ResidencyEffect::Refuse(A)]
    );
    assert_eq!(residency.standing(A), Standing::Cold);
}

#[test]
fn what_is_expected_opens_from_host_memory() {
    let mut residency = Residency::new(&spec(10, 20, &[10, 10, 10]));
    step(&mut residency, ResidencyEvent::Valued(B, 5.0));
    assert_eq!(
        step(&mut residency, ResidencyEvent::Expected(B)),
        [ResidencyEffect::Prefetch(B)]
    );
    step(&mut residency, ResidencyEvent::Prefetched(B));
    assert_eq!(residency.standing(B), Standing::Warm);
    assert_eq!(
        step(&mut residency, ResidencyEvent::Wanted(B)),
        [ResidencyEffect::Open { model: B, warm: true }]
    );
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Want(u32),
    Expect(u32),
    Value(u32, u8),
    Begin(u32),
    End(u32),
    Carry(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..5_u32).prop_map(Act::Want),
        (0..5_u32).prop_map(Act::Expect),
        (0..5_u32, any::<u8>()).prop_map(|(model, value)| Act::Value(model, value)),
        (0..5_u32).prop_map(Act::Begin),
        (0..5_u32).prop_map(Act::End),
        (0..8_usize).prop_map(Act::Carry),
    ]
}

proptest! {
    #[test]
    fn memory_is_never_exceeded_and_nothing_that_runs_is_closed(
        bytes in proptest::collection::vec(1..9_u64, 5),
        memory in 8..24_u64,
        host in 0..24_u64,
        acts in proptest::collection::vec(act(), 1..200),
    ) {
        let mut residency = Residency::new(&spec(memory, host, &bytes));
        let mut running = [0_u32; 5];
        let mut pending: Vec<ResidencyEffect> = Vec::new();
        for act in acts {
            let event = match act {
                Act::Want(model) => ResidencyEvent::Wanted(ModelId(model)),
                Act::Expect(model) => ResidencyEvent::Expected(ModelId(model)),
                Act::Value(model, value) => ResidencyEvent::Valued(ModelId(model), f64::from(value)),
                Act::Begin(model) if residency.standing(ModelId(model)) == Standing::Open => {
                    running[model as usize] += 1;
                    ResidencyEvent::Began(ModelId(model))
                }
                Act::End(model) if running[model as usize] > 0 => {
                    running[model as usize] -= 1;
                    ResidencyEvent::Ended(ModelId(model))
                }
                Act::Carry(index) if index < pending.len() => match pending.remove(index) {
                    ResidencyEffect::Open { model, .. } => ResidencyEvent::Opened(model),
                    ResidencyEffect::Close(model) => ResidencyEvent::Closed(model),
                    ResidencyEffect::Prefetch(model) => ResidencyEvent::Prefetched(model),
                    ResidencyEffect::Discard(_) | ResidencyEffect::Refuse(_) => continue,
                },
                _ => continue,
            };
            let effects = step(&mut residency, event);
            for effect in &effects {
                if let ResidencyEffect::Close(model) = effect {
                    prop_assert_eq!(running[model.index()], 0);
                }
            }
            pending.extend(effects);
            prop_assert!(residency.used_bytes() <= memory);
            prop_assert!(residency.host_bytes() <= host);
        }
    }

    #[test]
    fn whatever_is_wanted_is_opened_once_nothing_runs(
        bytes in proptest::collection::vec(1..9_u64, 5),
        wishes in proptest::collection::vec(0..5_u32, 1..30),
    ) {
        let mut residency = Residency::new(&spec(9, 9, &bytes));
        for model in wishes.into_iter().map(ModelId) {
            let mut pending = step(&mut residency, ResidencyEvent::Wanted(model));
            while let Some(effect) = pending.pop() {
                let event = match effect {
                    ResidencyEffect::Open { model, .. } => ResidencyEvent::Opened(model),
                    ResidencyEffect::Close(model) => ResidencyEvent::Closed(model),
                    _ => continue,
                };
                pending.extend(step(&mut residency, event));
            }
            prop_assert_eq!(residency.standing(model), Standing::Open);
        }
    }
}
