//! A cluster over TLS: an authority is made, nodes get certificates of it and listen on addresses of their own, and a node of another authority
//! is refused.

use super::{ASKED, Cluster, MADE, Node, good, run, stderr};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn refused(args: &[&str], wanted: &[&str]) {
    let output = run(args, "");
    let said = stderr(&output);
    assert!(!output.status.success() && wanted.iter().all(|wanted| said.contains(wanted)), "{args:?}: {said}");
}

fn bits(file: &str) -> u32 {
    Path::new(file).metadata().unwrap().permissions().mode() & 0o777
}

/// Ends a node, and gives what it has said to its administrator.
fn ended(node: &mut Node) -> String {
    let mut said = String::new();
    node.child.kill().unwrap();
    node.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    said
}

#[test]
fn nodes_with_certificates_are_linked_over_tls_and_others_are_not() {
    let cluster = Cluster::new();
    let port = cluster.keeper.rsplit_once(':').unwrap().1;
    let (authority, other) = (cluster.dir("authority"), cluster.dir("other"));
    let made = good(&["cluster", "init", &authority, "--name", "prod"], "");
    assert!(made.contains("the authority of cluster \"prod\" ("), "{made}");
    good(&["cluster", "init", &other, "--name", "test"], "");
    assert_eq!(bits(&format!("{authority}/authority.key")), 0o600);
    refused(&["cluster", "init", &authority], &["there is an authority already"]);

    let folder = |name: &str| cluster.dir(&format!("certificates/{name}"));
    let certificate = |authority: &str, node: &str, hosts: &str| {
        let out = folder(node);
        good(&["cluster", "certificate", authority, "--node", node, "--address", hosts, "--out", &out], "");
        out
    };
    let keeper = certificate(&authority, "keeper", "localhost,127.0.0.1");
    let worker = certificate(&authority, "worker", "127.0.0.2");
    let gateway = certificate(&authority, "gateway", "127.0.0.3");
    let stranger = certificate(&other, "stranger", "127.0.0.4");
    assert_eq!(bits(&format!("{worker}/node.key")), 0o600);
    let once_more = ["cluster", "certificate", &authority, "--node", "n", "--address", "127.0.0.4", "--out"];
    refused(&[&once_more[..], &[&stranger]].concat(), &["is of a node of cluster \"test\"", "is of cluster \"prod\""]);
    refused(&[&once_more[..], &[&authority]].concat(), &["has the key of an authority, which belongs on no node"]);
    let mixed = cluster.dir("mixed");
    std::fs::create_dir(&mixed).unwrap();
    std::fs::copy(format!("{authority}/authority.pem"), format!("{mixed}/authority.pem")).unwrap();
    std::fs::copy(format!("{other}/authority.key"), format!("{mixed}/authority.key")).unwrap();
    let of_mixed = ["cluster", "certificate", &mixed, "--node", "n", "--address", "127.0.0.4", "--out", &folder("n")];
    refused(&of_mixed, &["the key is not that of the authority of cluster \"prod\"", "it is another cluster's"]);

    let at_keeper = format!("localhost:{port}");
    let everywhere = format!("0.0.0.0:{port}");
    let links = ["--node-listen", &everywhere, "--certificates", &keeper];
    refused(
        &[&["node", &cluster.dir("keeper"), "--roles", "keeper"], &links[..]].concat(),
        &["which is no address that others can reach", "--node-address HOST:PORT"],
    );
    let links = [&links[..], &["--node-address", &at_keeper]].concat();
    let mut keeper = cluster.start_with("keeper", "keeper", &links);
    let joined = |listen: &'static str, certificates| {
        ["--join", &at_keeper, "--node-listen", listen, "--certificates", certificates].map(str::to_owned)
    };
    let start = |name: &str, role: &str, links: [String; 6]| {
        cluster.start_with(name, role, &links.each_ref().map(String::as_str))
    };
    let mut node = start("worker", "worker", joined("127.0.0.2:0", &worker));
    let gateway = start("gateway", "gateway", joined("127.0.0.3:0", &gateway));
    good(&["sql", &gateway.url(), "-c", &MADE.replace("replicas = 2, write_quorum = 1", "replicas = 1")], "");
    assert_eq!(gateway.asked(ASKED), "topic,n,ids\nnews,1500,2251500\nsport,1500,2250000\n");

    // Another certificate, and then one that others would refuse.
    for hosts in ["127.0.0.2,127.0.0.5", "127.0.0.5"] {
        certificate(&authority, "worker", hosts);
        let hung_up = std::process::Command::new("kill").args(["-HUP", &node.child.id().to_string()]).status();
        assert!(hung_up.unwrap().success());
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    let said = ended(&mut node);
    assert_eq!(said.matches("the node's certificate was read again").count(), 1, "{said}");
    assert_eq!(said.matches("and its certificate is for 127.0.0.5").count(), 1, "{said}");

    let mut node = vec!["node", &stranger, "--roles", "worker", "--join", &at_keeper];
    refused(&node, &["there is no secret of a cluster"]);
    std::fs::write(format!("{stranger}/secret"), "0123456789abcdef").unwrap();
    refused(&node, &["the keeper is not reached", "it speaks TLS, and this node has no certificates"]);
    node.extend(["--certificates", &stranger, "--node-listen", "127.0.0.4:0"]);
    refused(&node, &["its certificate is of cluster \"prod\" (", "and this node's of cluster \"test\" ("]);

    let said = ended(&mut keeper);
    for why in ["it speaks no TLS: start it with --certificates", "it does not accept this node's certificate"] {
        assert_eq!(said.matches(why).count(), 1, "{why}: {said}");
    }
}
