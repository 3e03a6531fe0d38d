//! People, drawn: their identity, appearance, pose and walk.
//!
//! An [`Identity`] holds all that stays: skin, face, hair, clothes. A [`Head`] or a [`Figure`] holds all that
//! changes: position, orientation, expression and gesture. No real person served as a model: everything comes
//! from seeds.
//!
//! Sizes of a head are given in its own height, chin to crown; those of a body in its own, sole to crown.
//! Directions are as the camera sees them: yaw to the right of the picture, pitch up, in degrees.

mod body;
mod clothes;
mod expression;
mod face;
mod features;
mod figure;
mod hair;
mod hairstyle;
mod head;
mod identity;
mod marks;
mod skull;

#[cfg(test)]
mod tests;

pub use body::{Arms, Gesture};
pub use expression::Expression;
pub use figure::{Figure, FigureSeen, draw_figure};
pub use head::{Head, HeadSeen, direction, draw_head, draw_head_from_behind};
pub use identity::Identity;
