//! Inputs of a batch whose pictures are all in the memory of the device that runs it: prepared there, in one launch.

use weir_flow::Item;

use super::runtime::Feed;
use crate::gpu::{CudaDevice, PlacedItem};
use crate::pixels::device::DeviceSampling;
use crate::pixels::{Arrangement, InputSpec};

/// Fills the input with `items`, sampled as `samplings` say, and the rows without an item with zero. Says whether that was done:
/// where a picture is elsewhere, or the device cannot prepare such an input, it is prepared on the host.
///
/// # Errors
/// The device is out of memory.
pub(super) fn fill(
    items: &[Item],
    samplings: &[DeviceSampling],
    spec: &InputSpec,
    shape: &[usize; 4],
    feed: &mut Feed,
) -> Result<bool, String> {
    let ordinal = |item: &Item| Some(item.frame.image.planes.on_device()?.ordinal);
    let Some(first) = items.first().and_then(ordinal) else {
        return Ok(false);
    };
    if spec.arrangement != Arrangement::Nchw || !items.iter().all(|item| ordinal(item) == Some(first)) {
        return Ok(false);
    }
    let Some(device) = CudaDevice::in_use(first) else {
        return Ok(false);
    };
    let Some(room) = feed.device_room(shape)?.filter(|room| room.ordinal() == first) else {
        return Ok(false);
    };
    let placed: Vec<PlacedItem<'_>> = items
        .iter()
        .zip(samplings)
        .map(|(item, sampling)| PlacedItem {
            image: &item.frame.image,
            sampling: *sampling,
        })
        .collect();
    match device.preprocess(&placed, spec, shape[0], &room) {
        Ok(()) => Ok(true),
        Err(reason) => {
            device.warn_once(&reason);
            Ok(false)
        }
    }
}
