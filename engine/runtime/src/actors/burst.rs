//! Pins what the actors rely on: a note to oneself is handled after all messages that are already in the mailbox, so a
//! burst is in before it is decided on.

use actix::{Actor, AsyncContext, Context, Handler, Message, System};
use tokio::sync::oneshot;

#[derive(Message)]
#[rtype(result = "()")]
struct Arrived(u32);

#[derive(Message)]
#[rtype(result = "()")]
struct Decide;

struct Probe {
    seen: Vec<u32>,
    deciding: bool,
    decided: Option<oneshot::Sender<Vec<u32>>>,
}

impl Actor for Probe {
    type Context = Context<Self>;
}

impl Handler<Arrived> for Probe {
    type Result = ();

    fn handle(&mut self, Arrived(number): Arrived, context: &mut Self::Context) {
        self.seen.push(number);
        if !self.deciding {
            self.deciding = true;
            context.notify(Decide);
        }
    }
}

impl Handler<Decide> for Probe {
    type Result = ();

    fn handle(&mut self, _: Decide, _context: &mut Self::Context) {
        if let Some(decided) = self.decided.take() {
            decided.send(std::mem::take(&mut self.seen)).unwrap();
        }
    }
}

#[test]
fn a_burst_is_in_before_it_is_decided_on() {
    let seen = System::new().block_on(async {
        let (sender, receiver) = oneshot::channel();
        let probe = Probe {
            seen: Vec::new(),
            deciding: false,
            decided: Some(sender),
        }
        .start();
        for number in 0..10 {
            probe.do_send(Arrived(number));
        }
        receiver.await.unwrap()
    });
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
}
