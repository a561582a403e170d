//! The shop behind the demo's door.

use std::io;
use std::net::TcpListener;

use axum::Router;
use axum::response::Html;

/// Serves the shop for ever; every path is the same page.
pub(super) async fn serve(listener: TcpListener) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let shop = Router::new().fallback(async || Html(include_str!("shop.html")));
    axum::serve(listener, shop).await
}
