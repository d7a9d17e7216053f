//! Messages in another partition than their order's. They are passed over, with an alarm: whoever decides the order does not read them
//! there, and two partitions at work on one try would not see each other's rows.

use std::borrow::Cow;

use holdfast_domain::shop::{Alarm, Message as Said};
use holdfast_messages::Topic;
use holdfast_postgres::shop::report;
use holdfast_postgres::{Batch, Claim, Error, Incoming, Source, Step};

use crate::settings::NodeSettings;

/// The alarm that a message is which lies in another partition than its order's. All topics of the shop have as many.
pub(super) fn misplaced(settings: &NodeSettings, partition: u32, said: &Said) -> Option<Alarm> {
    let wanted = settings.topics.partition(Topic::Outcomes, said.key.order_id.as_str().as_bytes());
    (wanted != partition).then(|| {
        let (key, message) = (said.key.clone(), said.body.type_name());
        Alarm::OtherPartition { key, message, partition, wanted }
    })
}

/// Has a batch handled without the messages that are not its partition's: nearly always all of it.
pub(super) fn handle_ours<M: Clone>(
    settings: &NodeSettings,
    claim: &Claim,
    batch: &Batch<'_, M>,
    said: fn(&M) -> &Said,
    step: impl FnOnce(&Batch<'_, M>) -> Result<Step, Error>,
) -> Result<Step, Error> {
    let alarm = |incoming: &Incoming<M>| match claim.source {
        Source::Consumer(_, partition) => {
            misplaced(settings, partition, said(incoming.message.as_ref().ok()?))
        }
        _ => None,
    };
    let mut alarms: Vec<Alarm> = batch.messages.iter().filter_map(alarm).collect();
    let ours: Cow<'_, [Incoming<M>]> = match alarms.is_empty() {
        true => Cow::Borrowed(batch.messages),
        false => batch.messages.iter().filter(|message| alarm(message).is_none()).cloned().collect(),
    };
    let mut step = step(&Batch { messages: &ours, ..*batch })?;
    if let Step::Done(done) = &mut step {
        report(&alarms);
        done.messages += alarms.len();
        done.alarms.append(&mut alarms);
    }
    Ok(step)
}
