//! Benchmark of the tracker: microseconds per frame by the number of objects. Objects move evenly with noise,
//! and a tenth of them is missed in each frame.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_analytics::{Detection, FrameTime, TrackIds, Tracker, TrackerSettings};
use weir_flow::Rect;

const FRAMES: u64 = 3_000;

/// Pseudo-random number from 0 to 1, by a linear congruential generator of Knuth.
fn draw(state: &mut u64) -> f32 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 40) as f32 / (1_u64 << 24) as f32
}

fn main() {
    println!("objects  us a frame  p99");
    for objects in [1, 10, 30, 100, 300] {
        let mut state = 1;
        let starts: Vec<[f32; 4]> = (0..objects)
            .map(|_| {
                let [x, y] = [1800.0, 1000.0].map(|side| side * draw(&mut state));
                let [speed_x, speed_y] = [120.0, 40.0].map(|speed| speed * (draw(&mut state) - 0.5));
                [x, y, speed_x, speed_y]
            })
            .collect();
        let class: Arc<str> = "car".into();
        let (mut tracker, mut ids) = (Tracker::new(TrackerSettings::default()), TrackIds::default());
        let mut took: Vec<Duration> = Vec::new();
        for frame in 0..FRAMES {
            let pts_ms = frame as f64 * 33.3;
            // They turn round after ten seconds.
            let seconds = (pts_ms / 1e3 % 20.0 - 10.0).abs() as f32;
            let mut boxes = Vec::with_capacity(objects);
            for [x, y, speed_x, speed_y] in &starts {
                let noise = draw(&mut state);
                if noise < 0.1 {
                    continue;
                }
                let (x, y) = (x + speed_x * seconds + noise, y + speed_y * seconds + noise);
                boxes.push(Rect::new(x, y, x + 60.0, y + 45.0));
            }
            let detections: Vec<Detection<'_>> = boxes
                .iter()
                .map(|rect| Detection {
                    rect: *rect,
                    score: 0.9,
                    class: &class,
                    appearance: None,
                    candidate: false,
                })
                .collect();
            let time = FrameTime {
                pts_ms,
                time_ms: pts_ms as u64,
            };
            let began = Instant::now();
            let (tracks, _) = tracker.on_frame(time, &detections, &mut ids);
            took.push(began.elapsed());
            assert_eq!(tracks.len(), detections.len());
        }
        took.sort_unstable();
        let mean = took.iter().sum::<Duration>().as_secs_f64() / took.len() as f64;
        let p99 = took[took.len() * 99 / 100].as_secs_f64();
        println!("{objects:7}  {:10.1}  {:.1}", mean * 1e6, p99 * 1e6);
    }
}
