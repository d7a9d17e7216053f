//! The HTTP edge on a hub of its own.

mod database_callbacks;
mod fspiop_takes_anything;
mod guarded;
mod hanging_up;
mod other_engine;
mod overload;
mod shop;
mod shop_courier;
mod shop_outside;
mod shop_takes_anything;
mod shop_tokens;
mod tokens;
mod tokens_take_anything;

/// One recorder per process: whoever comes first installs it.
fn metrics() -> metrics_exporter_prometheus::PrometheusHandle {
    static METRICS: std::sync::OnceLock<metrics_exporter_prometheus::PrometheusHandle> =
        std::sync::OnceLock::new();
    METRICS.get_or_init(|| holdfast_api::install_metrics().unwrap()).clone()
}
