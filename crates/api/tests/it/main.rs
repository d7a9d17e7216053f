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
mod world;
