//! What a sender carries: one request body, and who waits for which of its records.
//!
//! A shipment stays with one sender until it is answered, refused or nobody waits for it any more. So a record is
//! never under way twice at the same time, and its attempts follow one another.

use bytes::Bytes;
use holdfast_domain::records::UNIT;
use holdfast_domain::records::batch::{HEADER_LEN, request_header};

use crate::calls::Ticket;
use crate::requests::SealedBatch;

/// Who waits for the replies.
#[derive(Debug)]
pub(crate) enum Recipients {
    /// One call for each record, in their order.
    Calls(Vec<Ticket>),
    /// One call for all of them; `None`: its caller has gone or has been answered.
    Batch { ticket: Option<Ticket>, records: usize },
}

impl Recipients {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Recipients::Calls(tickets) => tickets.is_empty(),
            Recipients::Batch { ticket, .. } => ticket.is_none(),
        }
    }

    pub(crate) fn for_each(&self, act: impl FnMut(Ticket)) {
        match self {
            Recipients::Calls(tickets) => tickets.iter().copied().for_each(act),
            Recipients::Batch { ticket, .. } => ticket.iter().copied().for_each(act),
        }
    }

    pub(crate) fn all(&self, test: impl FnMut(Ticket) -> bool) -> bool {
        match self {
            Recipients::Calls(tickets) => tickets.iter().copied().all(test),
            Recipients::Batch { ticket, .. } => ticket.iter().copied().all(test),
        }
    }
}

/// One request and its recipients.
#[derive(Debug)]
pub(crate) struct Shipment {
    pub(crate) body: Bytes,
    pub(crate) recipients: Recipients,
    /// An attempt may have been carried out: from then on nothing else can be said but that it is unknown.
    pub(crate) may_have_happened: bool,
}

impl Shipment {
    /// Single calls that were written into one body, which still lacks its header.
    pub(crate) fn of_calls(mut body: Vec<u8>, tickets: Vec<Ticket>) -> Shipment {
        let count = u32::try_from(tickets.len()).expect("batch_records_max bounds it");
        body[..HEADER_LEN].copy_from_slice(&request_header(count));
        Shipment { body: body.into(), recipients: Recipients::Calls(tickets), may_have_happened: false }
    }

    pub(crate) fn of_batch(batch: SealedBatch, ticket: Ticket) -> Shipment {
        let recipients = Recipients::Batch { ticket: Some(ticket), records: batch.len() };
        Shipment { body: batch.body, recipients, may_have_happened: false }
    }

    /// How many replies it must get.
    pub(crate) fn records(&self) -> usize {
        match &self.recipients {
            Recipients::Calls(tickets) => tickets.len(),
            Recipients::Batch { records, .. } => *records,
        }
    }

    /// Leaves out the records whose recipients fail the test: they have been told how it ended and must not
    /// happen after that.
    pub(crate) fn keep(&mut self, mut test: impl FnMut(Ticket) -> bool) {
        match &mut self.recipients {
            Recipients::Batch { ticket, .. } => *ticket = ticket.filter(|ticket| test(*ticket)),
            Recipients::Calls(tickets) => {
                let mut body = Vec::with_capacity(self.body.len());
                body.resize(HEADER_LEN, 0);
                let mut kept = Vec::with_capacity(tickets.len());
                for (ticket, record) in tickets.iter().zip(each_record(&self.body)) {
                    if test(*ticket) {
                        kept.push(*ticket);
                        body.extend_from_slice(record);
                    }
                }
                *self =
                    Shipment { may_have_happened: self.may_have_happened, ..Shipment::of_calls(body, kept) };
            }
        }
    }

    /// Two shipments of half the calls each, in order; the shipment itself if it cannot be divided.
    pub(crate) fn split(self) -> Result<[Shipment; 2], Shipment> {
        let tickets = match &self.recipients {
            Recipients::Calls(tickets) if tickets.len() > 1 => tickets,
            _ => return Err(self),
        };
        let middle = tickets.len() / 2;
        let half = |range: std::ops::Range<usize>| {
            let mut body = vec![0; HEADER_LEN];
            each_record(&self.body)
                .skip(range.start)
                .take(range.len())
                .for_each(|record| body.extend_from_slice(record));
            let may_have_happened = self.may_have_happened;
            Shipment { may_have_happened, ..Shipment::of_calls(body, tickets[range].to_vec()) }
        };
        Ok([half(0..middle), half(middle..tickets.len())])
    }
}

/// The records of a body, by the length that each one says it has.
fn each_record(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = &body[HEADER_LEN..];
    std::iter::from_fn(move || {
        let units = u16::from_le_bytes([*rest.get(2)?, *rest.get(3)?]);
        let (record, after) = rest.split_at_checked(usize::from(units) * UNIT)?;
        rest = after;
        Some(record)
    })
}
