//! Random inputs near valid ones, for readers of bytes that come from outside, and the loop that runs a reader on them.
//!
//! A run is bounded by a number of inputs, and with `FUZZ_SECONDS` by time instead. `FUZZ_SEED` (1) chooses the inputs; it is
//! printed, and the same seed gives the same inputs. A reader that panics, allocates beyond its bound or does not return fails the
//! test with the smallest input that was found. `make fuzz` runs all such tests, whose names begin with `fuzz_`.

#![allow(dead_code, reason = "each test program needs some of it")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "seeds and inputs are printed"
)]

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

/// Bytes of an edited input.
const MAX_INPUT_BYTES: usize = 256 << 10;

/// Edits of one input.
const MAX_EDITS: usize = 8;

/// Inputs of a round, each of which has a seed of its own.
const ROUND: u32 = 200;

/// Time that one input may take: only a loop without an end takes that long.
const MAX_SECONDS: u64 = 60;

/// Numbers at which readers go wrong, besides powers of two and those beside them.
const NUMBERS: [u64; 9] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    u64::MAX - 1,
    u64::MAX,
];

/// One change of an input.
#[derive(Debug, Clone)]
enum Edit {
    Flip(Index, u8),
    Overwrite {
        at: Index,
        number: u64,
        width: usize,
        is_big_endian: bool,
    },
    Truncate(Index),
    Remove(Index, usize),
    Duplicate {
        from: Index,
        length: usize,
        to: Index,
        times: usize,
    },
    Insert(Index, Vec<u8>),
    /// A piece of another valid input.
    Splice {
        at: Index,
        other: Index,
        from: Index,
        length: usize,
    },
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        prop::sample::select(&NUMBERS[..]),
        (0_u32..64, 0_u64..3)
            .prop_map(|(power, beside)| (1_u64 << power).wrapping_add(beside).wrapping_sub(1)),
        any::<u64>(),
    ]
}

/// Lengths of pieces: mostly small.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 1_usize..16, 2 => 16_usize..300, 1 => 300_usize..20_000]
}

fn edit(words: &[&[u8]]) -> impl Strategy<Value = Edit> + use<> {
    let at = any::<Index>;
    let words: Vec<Vec<u8>> = words.iter().map(|word| word.to_vec()).collect();
    let bytes = if words.is_empty() {
        vec(any::<u8>(), 1..12).boxed()
    } else {
        prop_oneof![3 => prop::sample::select(words), 1 => vec(any::<u8>(), 1..12)].boxed()
    };
    prop_oneof![
        3 => (at(), 0_u8..8).prop_map(|(at, bit)| Edit::Flip(at, bit)),
        4 => (at(), number(), prop::sample::select(&[1_usize, 2, 3, 4, 8][..]), any::<bool>()).prop_map(
            |(at, number, width, is_big_endian)| Edit::Overwrite { at, number, width, is_big_endian }
        ),
        1 => at().prop_map(Edit::Truncate),
        2 => (at(), length()).prop_map(|(at, length)| Edit::Remove(at, length)),
        2 => (at(), length(), at(), prop_oneof![8 => 1_usize..4, 1 => 4_usize..400]).prop_map(
            |(from, length, to, times)| Edit::Duplicate { from, length, to, times }
        ),
        3 => (at(), bytes).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        2 => (at(), at(), at(), length()).prop_map(
            |(at, other, from, length)| Edit::Splice { at, other, from, length }
        ),
    ]
}

/// A place in the bytes or at their end.
fn place(index: &Index, bytes: &[u8]) -> usize {
    index.index(bytes.len() + 1)
}

fn piece(bytes: &[u8], from: &Index, length: usize) -> Vec<u8> {
    let from = place(from, bytes);
    bytes[from..bytes.len().min(from + length)].to_vec()
}

fn apply(bytes: &mut Vec<u8>, edit: &Edit, seeds: &[Vec<u8>]) {
    match edit {
        Edit::Flip(at, bit) => {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
        }
        Edit::Overwrite {
            at,
            number,
            width,
            is_big_endian,
        } => {
            let at = place(at, bytes);
            let number = if *is_big_endian {
                number.to_be_bytes()[8 - width..].to_vec()
            } else {
                number.to_le_bytes()[..*width].to_vec()
            };
            for (to, from) in bytes[at..].iter_mut().zip(number) {
                *to = from;
            }
        }
        Edit::Truncate(at) => bytes.truncate(place(at, bytes)),
        Edit::Remove(at, length) => {
            let at = place(at, bytes);
            bytes.drain(at..bytes.len().min(at + length));
        }
        Edit::Duplicate {
            from,
            length,
            to,
            times,
        } => {
            let repeated = piece(bytes, from, *length).repeat(*times);
            let to = place(to, bytes);
            bytes.splice(to..to, repeated);
        }
        Edit::Insert(at, inserted) => {
            let at = place(at, bytes);
            bytes.splice(at..at, inserted.iter().copied());
        }
        Edit::Splice {
            at,
            other,
            from,
            length,
        } => {
            let inserted = piece(&seeds[other.index(seeds.len())], from, *length);
            let at = place(at, bytes);
            bytes.splice(at..at, inserted);
        }
    }
    bytes.truncate(MAX_INPUT_BYTES);
}

/// One of the valid inputs with some edits. `words` are inserted more often than other bytes.
pub(crate) fn edited(seeds: Vec<Vec<u8>>, words: &[&[u8]]) -> impl Strategy<Value = Vec<u8>> + use<> {
    (any::<Index>(), vec(edit(words), 0..MAX_EDITS)).prop_map(move |(seed, edits)| {
        let mut bytes = seed.get(&seeds).clone();
        for edit in &edits {
            apply(&mut bytes, edit, &seeds);
        }
        bytes
    })
}

/// Memory that a reader may hold at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryBound {
    /// Bytes for any input.
    pub(crate) base: u64,
    /// Bytes for each byte of the input.
    pub(crate) per_byte: u64,
}

impl Default for MemoryBound {
    /// A megabyte, and for each byte what a number in a tree takes while a list grows.
    fn default() -> Self {
        Self {
            base: 1 << 20,
            per_byte: 160,
        }
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Tries that many edits of `seeds` on a reader, or as many as `FUZZ_SECONDS` allow.
pub(crate) fn fuzz(
    name: &str,
    cases: u32,
    bound: MemoryBound,
    seeds: Vec<Vec<u8>>,
    words: &[&[u8]],
    read: impl Fn(&[u8]),
) {
    assert!(!seeds.is_empty(), "{name}: no valid input");
    let (first, seconds) = (variable("FUZZ_SEED").unwrap_or(1), variable("FUZZ_SECONDS"));
    let watched = Watched::start(name, first);
    let inputs = edited(seeds, words);
    let (mut tried, mut round) = (0_u64, 0_u64);
    let began = now();
    loop {
        let count = match seconds {
            Some(seconds) if began.elapsed() >= Duration::from_secs(seconds) => break,
            Some(_) => ROUND,
            None if tried >= u64::from(cases) => break,
            None => ROUND.min(cases - tried as u32),
        };
        let config = Config {
            cases: count,
            failure_persistence: None,
            ..Config::default()
        };
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&first.to_le_bytes());
        seed[8..16].copy_from_slice(&round.to_le_bytes());
        let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
        let result = runner.run(&inputs, |input| {
            watched.begin(&input);
            let mut outcome = Ok(());
            let allocated = allocation_counter::measure(|| outcome = quietly(|| read(&input)));
            if let Err(reason) = outcome {
                return Err(TestCaseError::fail(reason));
            }
            let most = bound.base + bound.per_byte * input.len() as u64;
            prop_assert!(
                allocated.bytes_max <= most,
                "{} bytes of memory for an input of {}",
                allocated.bytes_max,
                input.len()
            );
            Ok(())
        });
        if let Err(error) = result {
            let (reason, input) = match &error {
                TestError::Fail(reason, input) => (reason.message(), &input[..]),
                TestError::Abort(reason) => (reason.message(), &[][..]),
            };
            panic!(
                "{name}: FUZZ_SEED={first}, round {round}: {reason}\nthe input is b\"{}\"",
                input.escape_ascii()
            );
        }
        tried += u64::from(count);
        round += 1;
    }
    println!(
        "{name}: FUZZ_SEED={first}, {tried} inputs in {:.1} s",
        began.elapsed().as_secs_f64()
    );
}

thread_local! {
    /// The panic of the reader that runs on this thread, if one does.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a reader; an error is its panic, which is not printed: while an input is made smaller there are thousands.
fn quietly(read: impl FnOnce()) -> Result<(), String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = take_hook();
        set_hook(Box::new(move |panic| {
            let is_reader = PANIC.with_borrow_mut(|reason| match reason {
                Some(reason) => {
                    *reason = panic.to_string();
                    true
                }
                None => false,
            });
            if !is_reader {
                print(panic);
            }
        }));
    });
    PANIC.set(Some(String::new()));
    let outcome = catch_unwind(AssertUnwindSafe(read));
    let reason = PANIC.take().unwrap_or_default();
    outcome.map_err(|_| reason)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a run ends after some time, and a reader that hangs is found by time"
)]
fn now() -> Instant {
    Instant::now()
}

/// The input that a reader has in hand, with its number.
type InHand = Arc<Mutex<(u64, Vec<u8>)>>;

/// Ends the process with the input in hand if a reader does not return.
struct Watched(InHand);

impl Watched {
    fn start(name: &str, seed: u64) -> Self {
        let in_hand = InHand::default();
        let (seen, name) = (Arc::downgrade(&in_hand), name.to_owned());
        std::thread::spawn(move || {
            // Seconds are counted, not measured: a process that is stopped for a while is not one that hangs.
            let (mut last, mut seconds) = (0, 0);
            while let Some(in_hand) = seen.upgrade() {
                let (number, input) = in_hand.lock().unwrap_or_else(PoisonError::into_inner).clone();
                drop(in_hand);
                seconds = if number == last { seconds + 1 } else { 0 };
                last = number;
                if number > 0 && seconds > MAX_SECONDS {
                    eprintln!(
                        "{name}: FUZZ_SEED={seed}: the reader does not return from the input b\"{}\"",
                        input.escape_ascii()
                    );
                    std::process::abort();
                }
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        Self(in_hand)
    }

    fn begin(&self, input: &[u8]) {
        let mut in_hand = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *in_hand = (in_hand.0 + 1, input.to_vec());
    }
}
