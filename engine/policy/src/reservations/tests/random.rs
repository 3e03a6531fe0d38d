//! Random events: no resource is booked twice, and every request has its answer.

use std::collections::BTreeMap;
use weir_types::*;

use super::*;

struct World {
    spec: ReserveSpec,
    reservations: Reservations,
    seed: u64,
    now: Timestamp,
    /// The request of each module.
    open_requests: BTreeMap<ModuleId, PathRequest>,
    /// Bookings in flight, with the number of ended uses.
    in_flight: BTreeMap<BookingId, usize>,
    down: Vec<bool>,
    booked: u64,
    lost: u64,
}

impl World {
    fn new(draw: Draw, seed: u64, random: &mut Pcg64Mcg) -> Self {
        let (spec, reservations) = reservations(draw, random);
        Self {
            down: vec![false; spec.cluster.shares.len()],
            spec,
            reservations,
            seed,
            now: at(1),
            open_requests: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            booked: 0,
            lost: 0,
        }
    }

    fn step(&mut self, events: Vec<ReserveEvent>) {
        let mut effects = Vec::new();
        self.reservations.step(events, self.now, &mut effects);
        for effect in effects {
            self.check(effect);
        }
        let all: Vec<Vec<PathStage>> = self
            .in_flight
            .keys()
            .filter_map(|id| self.reservations.booked(*id))
            .collect();
        check_spans(
            &self.spec.cluster,
            all.iter().map(Vec::as_slice),
            self.now,
            self.seed,
        );
    }

    fn check(&mut self, effect: ReserveEffect) {
        let seed = self.seed;
        match effect {
            ReserveEffect::Book {
                module,
                booking,
                pipeline,
                size,
                path,
                start,
                finish,
            } => {
                let request = self
                    .open_requests
                    .remove(&module)
                    .expect("an answer needs a request");
                assert!(finish <= request.deadline, "seed {seed}: booked too late");
                assert!(
                    size <= request.waiting,
                    "seed {seed}: more than the waiting items"
                );
                let known = &self.spec.cluster.pipelines[pipeline.index()];
                assert!(size <= known.batch && known.module == module);
                assert_eq!((start, finish), (path[0].run.from, path.last().unwrap().run.to));
                for (booked, stage) in path.iter().zip(&known.stages) {
                    assert!(stage.shares.contains(&booked.share) && !self.down[booked.share.index()]);
                    assert_eq!(booked.run.length(), stage.profile.duration(size));
                }
                assert_eq!(self.reservations.booked(booking), Some(path));
                self.in_flight.insert(booking, 0);
                self.booked += 1;
            }
            ReserveEffect::NoPath { module, finish } => {
                let request = self
                    .open_requests
                    .remove(&module)
                    .expect("an answer needs a request");
                assert!(finish > request.deadline, "seed {seed}: that was feasible");
            }
            ReserveEffect::Lost { booking, .. } => {
                assert!(
                    self.in_flight.remove(&booking).is_some(),
                    "seed {seed}: lost twice"
                );
                assert_eq!(self.reservations.booked(booking), None);
                self.lost += 1;
            }
            ReserveEffect::SetTimer { at } => assert!(at >= self.now, "seed {seed}"),
        }
    }

    fn random_booking(&self, random: &mut Pcg64Mcg) -> Option<BookingId> {
        let place = random.random_range(0..self.in_flight.len().max(1));
        self.in_flight.keys().nth(place).copied()
    }

    /// The next use of a random booking ended recently, earlier or later than booked.
    fn random_use(&mut self, random: &mut Pcg64Mcg) -> Option<ReserveEvent> {
        let booking = self.random_booking(random)?;
        if !self.spec.feedback {
            self.in_flight.remove(&booking);
            return Some(ReserveEvent::Finished { booking });
        }
        let path = self.reservations.booked(booking)?;
        let steps: Vec<(u32, ResourceUse)> = (0..)
            .zip(&path)
            .flat_map(|(stage, booked)| {
                let sent = booked.transfer.map(|_| (stage, ResourceUse::Transfer));
                sent.into_iter().chain([(stage, ResourceUse::Run)])
            })
            .collect();
        let over = self.in_flight.get_mut(&booking)?;
        // Some reports are lost.
        *over += usize::from(random.random_bool(0.1));
        let (stage, used) = *steps.get(*over).or(steps.last())?;
        *over += 1;
        if *over >= steps.len() {
            self.in_flight.remove(&booking);
        }
        let to = self
            .now
            .saturating_sub(Span::from_micros(random.random_range(0..5)));
        let from = to.saturating_sub(Span::from_micros(random.random_range(1..30)));
        Some(ReserveEvent::Used {
            booking,
            stage,
            used,
            from,
            to,
        })
    }

    fn random_event(&mut self, random: &mut Pcg64Mcg) -> Option<ReserveEvent> {
        let share = ShareId(random.random_range(0..u32::try_from(self.down.len()).unwrap()));
        match random.random_range(0..22) {
            0..9 => {
                let module = ModuleId(random.random_range(0..2));
                let deadline = self.now + Span::from_micros(random.random_range(0..300));
                let since = self.now;
                let waiting = random.random_range(1..6);
                let request = PathRequest {
                    deadline,
                    since,
                    waiting,
                };
                self.open_requests.insert(module, request);
                Some(ReserveEvent::PathRequested { module, request })
            }
            9..15 => self.random_use(random),
            15 => {
                let booking = self.random_booking(random)?;
                self.in_flight.remove(&booking);
                Some(match random.random_range(0..3) {
                    0 => ReserveEvent::Declined { booking },
                    1 => ReserveEvent::Failed { booking },
                    _ => ReserveEvent::Finished { booking },
                })
            }
            16 => {
                self.down[share.index()] = true;
                Some(ReserveEvent::Down { share })
            }
            17 => {
                self.down[share.index()] = false;
                Some(ReserveEvent::Up { share })
            }
            18 => {
                let module = ModuleId(random.random_range(0..2));
                self.open_requests.remove(&module);
                Some(ReserveEvent::RequestCancelled { module })
            }
            19 | 20 => Some(ReserveEvent::Dispatched {
                booking: self.random_booking(random)?,
                items: random.random_range(1..5),
            }),
            _ => Some(ReserveEvent::Tick),
        }
    }
}

#[test]
fn no_resource_is_booked_twice() {
    let (mut booked, mut lost) = (0, 0);
    for seed in 0..600 {
        let random = &mut Pcg64Mcg::seed_from_u64(seed);
        let draw = Draw {
            stages: 3,
            links: true,
            tables: if seed % 3 == 0 {
                BookingTable::BusyUntil
            } else {
                BookingTable::Intervals
            },
            feedback: seed % 4 != 0,
            head_min_fraction: if seed % 2 == 0 { 0.95 } else { 0.0 },
        };
        let mut world = World::new(draw, seed, random);
        for _ in 0..150 {
            let event = world.random_event(random);
            world.step(event.into_iter().collect());
            world.now = world.now + Span::from_micros(random.random_range(0..25));
        }
        (booked, lost) = (booked + world.booked, lost + world.lost);
    }
    assert!(
        booked > 10_000 && lost > 300,
        "{booked} booked, {lost} lost: too few cases"
    );
}

#[test]
fn the_same_events_give_the_same_effects() {
    let run = |seed| {
        let random = &mut Pcg64Mcg::seed_from_u64(seed);
        let draw = Draw {
            stages: 3,
            links: true,
            tables: BookingTable::Intervals,
            feedback: true,
            head_min_fraction: 0.0,
        };
        let mut world = World::new(draw, seed, random);
        let mut log = Vec::new();
        for _ in 0..100 {
            let events: Vec<_> = world.random_event(random).into_iter().collect();
            let mut twin = world.reservations.clone();
            let mut effects = Vec::new();
            twin.step(events.clone(), world.now, &mut effects);
            world.step(events.clone());
            log.push(serde_json::to_string(&(events, effects)).unwrap());
            world.now = world.now + Span::from_micros(random.random_range(0..25));
        }
        log
    };
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}
