//! Everything of the shop that calls others: a courier for each side that is outside, and the webhook.

use std::path::Path;

use holdfast_database::NodeHandle;
use holdfast_domain::shop::{Side, Sides};
use holdfast_hub::shop::HubShop;
use hyper::http::Uri;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::courier::Courier;
use crate::courier::shared::SharedSide;
use crate::courier::shop::{HubSide, Shop};
use crate::options::{CallbackOptions, LANE_IN_FLIGHT_MAX};
use crate::post::Post;
use crate::tls::OutgoingTls;
use crate::webhook::{Address, HeardEnds, StoredEnds};

/// Who is called by the shop, and where.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShopAddresses {
    /// The payment side, if it is outside.
    pub payment: Option<Uri>,
    /// The stock side, if it is outside.
    pub stock: Option<Uri>,
    /// Who is told how checkouts end.
    pub webhook: Option<Uri>,
}

impl ShopAddresses {
    /// The sides that are outside.
    #[must_use]
    pub const fn outside(&self) -> Sides {
        Sides { pay: self.payment.is_some(), stock: self.stock.is_some() }
    }

    /// Connections that are open to all of them at most.
    #[must_use]
    pub fn connections_max(&self) -> usize {
        [&self.payment, &self.stock, &self.webhook].into_iter().flatten().count() * LANE_IN_FLIGHT_MAX
    }
}

/// The running couriers and webhook.
pub struct ShopCalls {
    ending: watch::Sender<bool>,
    couriers: Vec<JoinHandle<()>>,
    webhook: Option<JoinHandle<()>>,
}

impl ShopCalls {
    /// Begins to call. Must be called inside a tokio runtime, after the log says which sides are outside and before the hub is
    /// served. `data` is where outcomes are kept that a clean stop leaves.
    ///
    /// # Errors
    /// If those of the last stop cannot be read.
    pub fn start(
        shop: &HubShop,
        addresses: ShopAddresses,
        options: CallbackOptions,
        tls: Option<&OutgoingTls>,
        data: &Path,
    ) -> std::io::Result<ShopCalls> {
        let ending = watch::Sender::new(false);
        let ShopAddresses { payment, stock, webhook } = addresses;
        let webhook = webhook.map(|uri| HeardEnds::open(address(uri, tls), shop.clone(), options, data));
        let webhook = webhook.transpose()?.map(|webhook| tokio::spawn(webhook.run(ending.subscribe())));
        let sides = [(Side::Pay, payment), (Side::Stock, stock)];
        let couriers = sides.into_iter().filter_map(|(side, uri)| {
            let shop = HubSide { shop: shop.clone(), side };
            Some(courier(side, uri?, shop, &options, tls, &ending))
        });
        Ok(ShopCalls { couriers: couriers.collect(), webhook, ending })
    }

    /// The same for a node of the database profile: it asks about orders of the partitions that it has, and tells ends that it takes in hand.
    /// What is wrong with sides is noted there. Must be called inside a tokio runtime.
    #[must_use]
    pub fn start_shared(
        node: &NodeHandle,
        addresses: ShopAddresses,
        options: CallbackOptions,
        tls: Option<&OutgoingTls>,
    ) -> ShopCalls {
        let ending = watch::Sender::new(false);
        let ShopAddresses { payment, stock, webhook } = addresses;
        let webhook = webhook.zip(node.tellings()).map(|(uri, tellings)| {
            let webhook = StoredEnds::new(address(uri, tls), tellings, options);
            tokio::spawn(webhook.run(ending.subscribe()))
        });
        let sides = [(Side::Pay, payment), (Side::Stock, stock)];
        let couriers = sides.into_iter().filter_map(|(side, uri)| {
            let shop = SharedSide { called: node.called(side)?, troubles: node.troubles().clone() };
            Some(courier(side, uri?, shop, &options, tls, &ending))
        });
        ShopCalls { couriers: couriers.collect(), webhook, ending }
    }

    /// Begins no more requests and gives those to outside sides a while to end.
    pub async fn end(&mut self) {
        self.ending.send_replace(true);
        for courier in self.couriers.drain(..) {
            told(courier.await);
        }
    }

    /// Keeps outcomes that were not told. To be called when the hub has stopped.
    pub async fn finish(mut self) {
        self.end().await;
        if let Some(webhook) = self.webhook.take() {
            told(webhook.await);
        }
    }
}

/// Where the webhook tells outcomes.
fn address(uri: Uri, tls: Option<&OutgoingTls>) -> Address {
    Address { uri, post: Post::new(tls.cloned(), LANE_IN_FLIGHT_MAX) }
}

/// A courier at work.
fn courier(
    side: Side,
    uri: Uri,
    shop: impl Shop,
    options: &CallbackOptions,
    tls: Option<&OutgoingTls>,
    ending: &watch::Sender<bool>,
) -> JoinHandle<()> {
    let post = Post::new(tls.cloned(), LANE_IN_FLIGHT_MAX);
    tokio::spawn(Courier::new(side, uri, shop, post, options).run(ending.subscribe()))
}

fn told(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a courier of the shop did not end cleanly");
    }
}
