//! A client that is dropped takes its connection with it. A command that asked in a loop, with a client
//! of its own each time, once filled all connection slots of the supervisor's socket.

use interprocess::{local_socket::traits::tokio::Listener as _, os::unix::uds_local_socket::tokio::Listener};
use leo_ipc::{
    Envelope, Generation, Kind,
    client::Client,
    codec,
    control::{ControlRequest, Shutdown},
    frame::{self, MAX_FRAME},
    hello::Role,
    server,
};
use std::time::Duration;

#[tokio::test]
async fn a_dropped_client_leaves_no_connection() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let std_listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std_listener.set_nonblocking(true).unwrap();
    let listener = Listener::try_from(std::os::fd::OwnedFd::from(std_listener)).unwrap();
    let served = tokio::spawn(async move {
        let socket = listener.accept().await.unwrap();
        server::handshake(&socket).await.unwrap();
        let mut both = &socket;
        let request = frame::read(&mut both, MAX_FRAME).await.unwrap().unwrap();
        let id = codec::decode::<Envelope>(&request).unwrap().id;
        let body = codec::encode(&leo_ipc::Done {}).unwrap();
        let reply = codec::encode(&Envelope { kind: Kind::Reply, id, body }).unwrap();
        frame::write(&mut both, &reply, MAX_FRAME).await.unwrap();
        // The end of the connection, or this test hangs until its runner ends it.
        frame::read(&mut both, MAX_FRAME).await.unwrap()
    });
    let client: Client<ControlRequest> = Client::new(path, Role::Cli, Generation(0));
    client.call(Shutdown {}, Duration::from_secs(5)).await.unwrap();
    drop(client);
    assert_eq!(served.await.unwrap(), None);
}
