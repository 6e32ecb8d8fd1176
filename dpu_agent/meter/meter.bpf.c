// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The in-kernel meter: counts every frame at the ingress of the host port (what the node sends) and at the
// ingress of the uplink (what the node receives), and passes it on untouched.
//
// It sits at *ingress* because the workload cannot skip that hook: egress hooks are passed by sockets that
// bypass the queue discipline, and count before it (docs/explanation/meter.md).
//
// Nothing here is ever cleared. Totals only grow; a slot of the ring holds its bucket's index and the totals
// as they stood after the bucket's last frame. The reader takes differences, so a frame that lands in a slot
// late, or a reader that comes late, changes when bytes are seen but never how many.
//
// Bytes are frame bytes without FCS, VLAN tags included:
//   raw   what the kernel handed over; a segmentation-offloaded packet counts once
//   wire  the same with each such packet's headers counted once a segment, as the far end of a wire would
#include <linux/bpf.h>
#include <linux/icmpv6.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define HOOKS 2 // 0: host port ingress (egress of the node), 1: uplink ingress (ingress of the node)
#define VLAN_TAG_BYTES 4
#define MAX_TAGS 2
#define IP_OFFSET_MASK 0x1fff

#define ETH_P_LLDP_ 0x88cc
#define PORT_VXLAN 4789
#define PORT_GENEVE 6081

enum traffic_class {
	CLASS_UNKNOWN = 0, // an address the table does not name; limits treat it as other pod
	CLASS_SAME_POD = 1,
	CLASS_OTHER_POD = 2,
	CLASS_FRONT_END = 3,
	CLASS_STORAGE = 4,
	CLASS_MANAGEMENT = 5,
	CLASS_L2_CONTROL = 6, // ARP, neighbour discovery, LLDP
	CLASS_NON_IP = 7,
	CLASSES = 8,
};

// Set by the loader before the program is loaded, so that the verifier folds them in as constants.
const volatile __u64 width_ns = 1000000; // of a bucket
const volatile __u32 slots = 8192;       // of the ring, a hook and CPU; a power of two
const volatile __u32 cpus = 1;           // possible CPUs
const volatile __u32 peers = 1;          // entries of peer_totals a hook

// The class table in force; only ever rises. Its lowest bit says which half of the tries holds it.
__u32 generation = 0;

struct totals {
	__u64 raw_bytes;
	__u64 wire_bytes;
	__u64 packets;  // as handed over
	__u64 segments; // as on a wire
};

struct class_totals {
	__u64 raw_bytes;
	__u64 wire_bytes;
	__u64 packets;
	__u64 tunnelled_bytes; // wire bytes inside a tunnel: classified by the outer address only
	__u64 tagged_packets;  // with a VLAN tag
};

// One lookup for everything a hook counts on this CPU.
struct hook_totals {
	struct totals all;
	struct class_totals by_class[CLASSES];
};

struct peer_totals {
	__u64 wire_bytes;
	__u64 packets;
};

struct bucket {
	__u64 index; // bpf_ktime_get_ns() / width_ns
	__u64 raw_bytes;
	__u64 wire_bytes;
	__u64 packets;
};

// Address table: entries of both generations and directions live in one trie a family; the first 32 key bits
// say whose they are, so one 4-byte store of `generation` switches the whole table at once.
struct key4 {
	__u32 prefix_bits; // 32 + prefix length
	__u8 half, hook, pad[2];
	__u8 address[4];
};

struct key6 {
	__u32 prefix_bits;
	__u8 half, hook, pad[2];
	__u8 address[16];
};

struct label {
	__u16 traffic_class;
	__u16 peer; // 0: none
};

// What the trie last said of an IPv4 address, per CPU: a trie walk costs as much as the rest of the meter.
#define CACHED 1024 // a power of two
struct cached_label {
	__u32 address;
	__u32 owner; // table generation and hook it was said for, plus one so that an empty entry fits none
	struct label label;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, HOOKS);
	__type(key, __u32);
	__type(value, struct hook_totals);
} totals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, HOOKS); // set by the loader: hooks * peers
	__type(key, __u32);
	__type(value, struct peer_totals);
} peer_totals SEC(".maps");

// Indexed (hook * cpus + cpu) * slots + (index mod slots). A per-CPU array cannot be memory-mapped; this can.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // set by the loader: hooks * cpus * slots
	__type(key, __u32);
	__type(value, struct bucket);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct key4);
	__type(value, struct label);
} table4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct key6);
	__type(value, struct label);
} table6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CACHED);
	__type(key, __u32);
	__type(value, struct cached_label);
} cache4 SEC(".maps");

// What the headers say.
struct parsed {
	__u32 traffic_class;
	__u32 peer;
	__u32 header_bytes; // up to the payload of a segment; 0 if not known
	__u32 tagged;
	__u32 tunnelled;
};

struct tag {
	__be16 control, protocol;
};

// A header of the frame: in place where it is linear (nearly always), else copied into `copy`.
static __always_inline const void *header(struct __sk_buff *skb, __u32 offset, __u32 bytes, void *copy)
{
	const __u8 *data = (const void *)(long)skb->data, *end = (const void *)(long)skb->data_end;

	if (data + offset + bytes <= end)
		return data + offset;
	return bpf_skb_load_bytes(skb, offset, copy, bytes) ? (const void *)0 : copy;
}

static __always_inline int is_tag(__be16 protocol)
{
	return protocol == bpf_htons(ETH_P_8021Q) || protocol == bpf_htons(ETH_P_8021AD);
}

static __always_inline int is_tunnel(struct __sk_buff *skb, __u8 protocol, __u32 offset)
{
	const struct udphdr *udp;
	struct udphdr copy;

	if (protocol == IPPROTO_IPIP || protocol == IPPROTO_IPV6 || protocol == IPPROTO_GRE)
		return 1;
	if (protocol != IPPROTO_UDP)
		return 0;
	udp = header(skb, offset, sizeof(*udp), &copy);
	return udp && (udp->dest == bpf_htons(PORT_VXLAN) || udp->dest == bpf_htons(PORT_GENEVE));
}

static __always_inline __u32 segment_header_bytes(struct __sk_buff *skb, __u8 protocol, __u32 offset)
{
	__u8 words;

	if (protocol == IPPROTO_UDP)
		return offset + sizeof(struct udphdr);
	// The data offset stands in the upper half of byte 12 of a TCP header.
	if (protocol != IPPROTO_TCP || bpf_skb_load_bytes(skb, offset + 12, &words, 1))
		return 0;
	return offset + (words >> 4) * 4;
}

static __always_inline void parse4(struct __sk_buff *skb, __u32 hook, __u32 offset, __u32 table, struct parsed *out)
{
	struct key4 key = {.prefix_bits = 64, .half = table & 1, .hook = hook};
	const struct iphdr *ip;
	const __u32 owner = table * HOOKS + hook + 1;
	struct cached_label *cached;
	struct label *label;
	struct iphdr copy;
	__u32 transport, address, slot;

	ip = header(skb, offset, sizeof(*ip), &copy);
	if (!ip)
		return;
	address = hook == 0 ? ip->daddr : ip->saddr;
	slot = ((address * 2654435761u) >> 16) & (CACHED - 1);
	cached = bpf_map_lookup_elem(&cache4, &slot);
	if (!cached)
		return;
	if (cached->address != address || cached->owner != owner) {
		__builtin_memcpy(key.address, &address, sizeof(key.address));
		label = bpf_map_lookup_elem(&table4, &key);
		cached->address = address;
		cached->owner = owner;
		cached->label.traffic_class = label ? label->traffic_class : CLASS_UNKNOWN;
		cached->label.peer = label ? label->peer : 0;
	}
	out->traffic_class = cached->label.traffic_class;
	out->peer = cached->label.peer;
	transport = offset + ip->ihl * 4;
	if (ip->frag_off & bpf_htons(IP_OFFSET_MASK))
		return;
	out->tunnelled = is_tunnel(skb, ip->protocol, transport);
	if (skb->gso_segs > 1)
		out->header_bytes = segment_header_bytes(skb, ip->protocol, transport);
}

static __always_inline void parse6(struct __sk_buff *skb, __u32 hook, __u32 offset, __u32 table, struct parsed *out)
{
	struct key6 key = {.prefix_bits = 160, .half = table & 1, .hook = hook};
	const struct ipv6hdr *ip;
	struct label *label;
	struct ipv6hdr copy;
	__u32 transport = offset + sizeof(*ip);
	__u8 type;

	ip = header(skb, offset, sizeof(*ip), &copy);
	if (!ip)
		return;
	// Router and neighbour solicitation, advertisement and redirect: types 133 to 137 (RFC 4861).
	if (ip->nexthdr == IPPROTO_ICMPV6 && !bpf_skb_load_bytes(skb, transport, &type, 1) && type >= 133 && type <= 137) {
		out->traffic_class = CLASS_L2_CONTROL;
		return;
	}
	__builtin_memcpy(key.address, hook == 0 ? &ip->daddr : &ip->saddr, sizeof(key.address));
	label = bpf_map_lookup_elem(&table6, &key);
	if (label) {
		out->traffic_class = label->traffic_class;
		out->peer = label->peer;
	}
	out->tunnelled = is_tunnel(skb, ip->nexthdr, transport);
	if (skb->gso_segs > 1)
		out->header_bytes = segment_header_bytes(skb, ip->nexthdr, transport);
}

static __always_inline void parse(struct __sk_buff *skb, __u32 hook, __u32 table, struct parsed *out)
{
	__u32 offset = sizeof(struct ethhdr);
	__be16 protocol = skb->protocol;
	const struct tag *tag;
	struct tag copy;

	out->tagged = !!skb->vlan_present;
	// Tags the kernel has not lifted out of the frame stand before the network header.
	for (int i = 0; i < MAX_TAGS && is_tag(protocol); i++) {
		tag = header(skb, offset, sizeof(*tag), &copy);
		if (!tag)
			break;
		out->tagged = 1;
		offset += sizeof(*tag);
		protocol = tag->protocol;
	}
	if (protocol == bpf_htons(ETH_P_IP))
		parse4(skb, hook, offset, table, out);
	else if (protocol == bpf_htons(ETH_P_IPV6))
		parse6(skb, hook, offset, table, out);
	else if (protocol == bpf_htons(ETH_P_ARP) || protocol == bpf_htons(ETH_P_LLDP_))
		out->traffic_class = CLASS_L2_CONTROL;
	else
		out->traffic_class = CLASS_NON_IP;
}

// 1. Frame bytes: raw as handed over, wire with the headers of every segment.
// 2. Totals of this CPU grow.
// 3. The current bucket's slot takes the totals as they stand now, and its own index.
// 4. Totals of the traffic class and of the peer node grow.
static __always_inline int meter(struct __sk_buff *skb, __u32 hook)
{
	struct parsed parsed = {.traffic_class = CLASS_UNKNOWN};
	__u32 segments = 1, key, tag_bytes;
	struct class_totals *by_class;
	struct peer_totals *by_peer;
	struct hook_totals *counted;
	__u64 raw, wire, index;
	struct totals *total;
	struct bucket *slot;

	counted = bpf_map_lookup_elem(&totals, &hook);
	if (!counted)
		return TC_ACT_UNSPEC;
	total = &counted->all;

	parse(skb, hook, generation, &parsed);
	tag_bytes = skb->vlan_present ? VLAN_TAG_BYTES : 0;
	raw = wire = skb->len + tag_bytes;
	if (skb->gso_segs > 1) {
		segments = skb->gso_segs;
		wire += (__u64)(segments - 1) * (parsed.header_bytes + tag_bytes);
	}

	total->raw_bytes += raw;
	total->wire_bytes += wire;
	total->packets += 1;
	total->segments += segments;

	index = bpf_ktime_get_ns() / width_ns;
	key = (hook * cpus + bpf_get_smp_processor_id()) * slots + (index & (slots - 1));
	slot = bpf_map_lookup_elem(&ring, &key);
	if (slot) {
		slot->raw_bytes = total->raw_bytes;
		slot->wire_bytes = total->wire_bytes;
		slot->packets = total->segments;
		slot->index = index;
	}

	by_class = &counted->by_class[parsed.traffic_class & (CLASSES - 1)];
	by_class->raw_bytes += raw;
	by_class->wire_bytes += wire;
	by_class->packets += segments;
	by_class->tagged_packets += parsed.tagged;
	if (parsed.tunnelled)
		by_class->tunnelled_bytes += wire;
	if (parsed.peer && parsed.peer < peers) {
		key = hook * peers + parsed.peer;
		by_peer = bpf_map_lookup_elem(&peer_totals, &key);
		if (by_peer) {
			by_peer->wire_bytes += wire;
			by_peer->packets += segments;
		}
	}
	return TC_ACT_UNSPEC;
}

SEC("classifier")
int weighbridge_host_port(struct __sk_buff *skb)
{
	return meter(skb, 0);
}

SEC("classifier")
int weighbridge_uplink(struct __sk_buff *skb)
{
	return meter(skb, 1);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
