// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The in-kernel meter and policer of one port: counts every frame at the port's ingress (what the node sends, on the
// host port; what it receives, on the uplink), and passes it on untouched or, where an order limits its class, drops
// what is more than the order allows. Frames that are dropped are counted like the others.
//
// It sits at *ingress* because the workload cannot skip that hook: egress hooks are passed by sockets that
// bypass the queue discipline, and count before it (docs/explanation/meter.md).
//
// Nothing that is counted here is ever cleared. Totals only grow, one set (a lane) a CPU. A slot of the ring holds its bucket's
// index and the lane's totals as they stood before the bucket's first frame and after its last, so each slot says
// by itself how much its bucket held, and two neighbours say whether anything between them is missing.
//
// Bytes are frame bytes without FCS, VLAN tags included:
//   raw   what the kernel handed over; a segmentation-offloaded packet counts once
//   wire  the same with each such packet's headers counted once a segment, as the far end of a wire would
//
// No helper here is newer than Linux 5.7 (bpf_spin_lock is of 5.1), no field of __sk_buff newer than 5.7 (gso_size).
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define VLAN_TAG_BYTES 4
#define MAX_TAGS 2
#define MAX_EXTENSIONS 4
#define IP_OFFSET_MASK 0x1fff
#define ETH_P_LLDP_ 0x88cc
#define PORT_VXLAN 4789
#define PORT_GENEVE 6081
#define CACHED 256 // labels a lane remembers; a power of two

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

// Written by the loader before the program is loaded, so that the verifier folds them in as constants.
// The only object in .rodata: the loader writes that section as a whole.
struct settings {
	__u64 width_ns;      // of a bucket
	__u32 slots;         // of the ring, a CPU; a power of two
	__u32 cpus;          // highest possible CPU number plus one
	__u32 peers;         // entries of the peer table a CPU
	__u32 at_host_port;  // 1: look destinations up (egress); 0: sources (ingress)
};
const volatile struct settings settings = {};

struct totals {
	__u64 raw_bytes;
	__u64 wire_bytes;
	__u64 segments; // frames as on a wire
};

struct class_totals {
	__u64 raw_bytes;
	__u64 wire_bytes;
	__u64 segments;
	__u64 tunnelled_bytes; // wire bytes inside a tunnel: classified by the outer address only
	__u64 tagged_segments; // with a VLAN tag
};

struct label {
	__u16 traffic_class;
	__u16 peer; // 0: none
};

// What the table last said of an address: a walk of it costs as much as the rest of the meter.
struct cached_label {
	__u64 address[2];
	__u32 owner; // table generation and address family it was said for; 0: empty
	struct label label;
};

// Everything one CPU counts. Memory-mapped by the agent, hence not a per-CPU map; its size keeps two CPUs'
// lanes on different cache lines.
struct lane {
	struct totals all;
	__u64 packets;    // as handed over
	__u64 index;      // of the bucket of the newest frame
	__u64 ends_ns;    // when that bucket ends
	__u32 generation; // written by the agent: the table in force, from 1; its lowest bit is the half that holds it
	__u32 pad;
	__u64 reserved;
	struct class_totals by_class[CLASSES];
	struct cached_label cache[CACHED];
};

struct peer_totals {
	__u64 wire_bytes;
	__u64 segments;
};

struct bucket {
	__u64 index; // bpf_ktime_get_ns() / width_ns; 0: never used
	struct totals before;
	struct totals after;
	__u64 pad;
};

// Entries of both halves live in one trie a family; the first 32 key bits say whose they are. The agent fills
// the half that is not in force, then turns every lane's generation.
struct key4 {
	__u32 prefix_bits; // 32 + prefix length
	__u8 half, pad[3];
	__u8 address[4];
};

struct key6 {
	__u32 prefix_bits;
	__u8 half, pad[3];
	__u8 address[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // set by the loader: cpus
	__type(key, __u32);
	__type(value, struct lane);
} lanes SEC(".maps");

// Indexed cpu * slots + (index mod slots).
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // set by the loader: cpus * slots
	__type(key, __u32);
	__type(value, struct bucket);
} ring SEC(".maps");

// Indexed cpu * peers + peer.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // set by the loader: cpus * peers
	__type(key, __u32);
	__type(value, struct peer_totals);
} peer_totals SEC(".maps");

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

// The agent's own marks, kept where the counts are; the program never looks at them.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, 65536);
} marks SEC(".maps");

// ---------------------------------------------------------------- limits

#define NS_PER_S 1000000000ull
#define LONGEST_S (1ull << 20) // a bucket that was not looked at for longer is full

// What one class may pass; written by the agent as a whole, under the lock. A token bucket of `rate` and `depth` until
// `until_ns` or until `passed_bytes` of the class has come to `ceiling_bytes`; from then on one of the floor's.
struct order {
	struct bpf_spin_lock lock;
	__u32 active; // 0: not limited; 1: limited; else also the queue's class that what passes waits in, where it leaves
	__u64 rate, depth;
	__u64 ceiling_bytes, until_ns; // all ones: none
	__u64 floor_rate, floor_depth;
};

// The bucket of one class, and what it was offered, passed and dropped: wire bytes, and frames as on a wire. Written
// by the program only. `remainder` is what is left of a byte, in billionths.
struct policed {
	struct bpf_spin_lock lock;
	__u32 pad;
	__u64 rate; // at which the bucket was filled last
	__u64 tokens, remainder, last_ns;
	__u64 offered_bytes, passed_bytes, dropped_bytes;
	__u64 offered_segments, passed_segments, dropped_segments;
	__u64 unplaced_bytes; // passed while another CPU turned to the next bucket of `judged`: in none of them
};

// What one class passed and what it lost in one bucket of time, wire bytes; under the lock of the class's `policed`.
struct judged {
	__u64 index; // of the bucket, as in the ring; 0: never used
	__u64 passed_bytes, dropped_bytes;
	__u64 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CLASSES);
	__type(key, __u32);
	__type(value, struct order);
} orders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CLASSES);
	__type(key, __u32);
	__type(value, struct policed);
} policed SEC(".maps");

// Indexed traffic class * slots + (index mod slots).
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // set by the loader: CLASSES * slots
	__type(key, __u32);
	__type(value, struct judged);
} judged SEC(".maps");

// Interfaces whose frames may leave by a port where the gate stands: those at whose ingress the policer stands, and those
// that are not limited; by interface number. Number 0 counts the frames that were refused.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} entered SEC(".maps");

// Returns whether the frame may pass.
//
// 1. The order, as a whole. Unknown addresses and what is not IP share the budget of other pods.
// 2. Under the bucket's lock: another order or the floor takes the bucket over with the tokens it has, never more than
//    its own depth, and is given nothing for time under another rate. So no change of orders is a refill.
// 3. Tokens for the time that passed, to the billionth of a byte; then the frame's, if they are there.
// 4. Into the bucket of time of the newest frame's clock, so that no bucket holds what tokens of a later one let pass.
static __always_inline int admit(struct __sk_buff *skb, __u32 traffic_class, __u64 wire, __u64 segments, __u64 now_ns)
{
	__u64 rate, depth, elapsed_ns, ceiling, until, floor_rate, floor_depth, part, limit_rate, limit_depth, index;
	struct policed *bucket;
	struct judged *judged_slot;
	struct order *order;
	__u32 active, at_floor, placed, key;
	int passes = 0;

	if (traffic_class == CLASS_UNKNOWN || traffic_class == CLASS_NON_IP)
		traffic_class = CLASS_OTHER_POD;
	order = bpf_map_lookup_elem(&orders, &traffic_class);
	if (!order || !order->active)
		return 1;
	bucket = bpf_map_lookup_elem(&policed, &traffic_class);
	if (!bucket)
		return 1;
	bpf_spin_lock(&order->lock);
	active = order->active;
	limit_rate = order->rate;
	limit_depth = order->depth;
	ceiling = order->ceiling_bytes;
	until = order->until_ns;
	floor_rate = order->floor_rate;
	floor_depth = order->floor_depth;
	bpf_spin_unlock(&order->lock);
	if (!active)
		return 1;
	index = (bucket->last_ns > now_ns ? bucket->last_ns : now_ns) / settings.width_ns;
	key = traffic_class * settings.slots + (index & (settings.slots - 1));
	judged_slot = bpf_map_lookup_elem(&judged, &key);
	if (!judged_slot)
		return 0;

	bpf_spin_lock(&bucket->lock);
	at_floor = now_ns >= until || bucket->passed_bytes >= ceiling;
	rate = at_floor ? floor_rate : limit_rate;
	depth = at_floor ? floor_depth : limit_depth;
	elapsed_ns = now_ns > bucket->last_ns ? now_ns - bucket->last_ns : 0;
	if (bucket->rate != rate) {
		bucket->rate = rate;
		bucket->last_ns += elapsed_ns;
		elapsed_ns = 0;
	}
	if (elapsed_ns >= LONGEST_S * NS_PER_S) {
		bucket->tokens = depth;
		bucket->remainder = 0;
	} else {
		part = elapsed_ns % NS_PER_S;
		bucket->tokens += rate * (elapsed_ns / NS_PER_S) + rate / NS_PER_S * part;
		part = rate % NS_PER_S * part + bucket->remainder;
		bucket->tokens += part / NS_PER_S;
		bucket->remainder = part % NS_PER_S;
	}
	bucket->last_ns += elapsed_ns;
	if (bucket->tokens >= depth) {
		bucket->tokens = depth;
		bucket->remainder = 0;
	}
	bucket->offered_bytes += wire;
	bucket->offered_segments += segments;
	placed = bucket->last_ns - index * settings.width_ns < settings.width_ns;
	if (placed && judged_slot->index != index) {
		judged_slot->index = index;
		judged_slot->passed_bytes = 0;
		judged_slot->dropped_bytes = 0;
	}
	if (wire <= bucket->tokens && (at_floor || wire <= ceiling - bucket->passed_bytes)) {
		bucket->tokens -= wire;
		bucket->passed_bytes += wire;
		bucket->passed_segments += segments;
		if (placed)
			judged_slot->passed_bytes += wire;
		else
			bucket->unplaced_bytes += wire;
		passes = 1;
	} else {
		bucket->dropped_bytes += wire;
		bucket->dropped_segments += segments;
		if (placed)
			judged_slot->dropped_bytes += wire;
	}
	bpf_spin_unlock(&bucket->lock);
	if (passes && active != 1)
		skb->priority = active;
	return passes;
}

// What the headers say.
struct parsed {
	__u32 traffic_class;
	__u32 peer;
	__u32 header_bytes;  // up to the payload of a segment; 0: not known
	__u32 jumbo_bytes;   // a header that only stands in a segmentation-offloaded packet, on no wire
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

static __always_inline int is_extension(__u8 protocol)
{
	return protocol == IPPROTO_HOPOPTS || protocol == IPPROTO_ROUTING || protocol == IPPROTO_DSTOPTS;
}

// Where the headers of a segmentation-offloaded packet end: those are repeated in each segment. Walks from the
// outer IP header through at most one tunnel. Only such packets come here, so nothing is spared: a function of
// its own, called once per up to 64 kB. Returns 0 where it cannot tell.
static __noinline __u32 repeated_header_bytes(struct __sk_buff *skb, __u32 offset, __u32 protocol, __u32 *jumbo)
{
	__u8 bytes[8], next = 0;
	__u16 type;

	if (!jumbo)
		return 0;
	for (int depth = 0; depth < 2; depth++) {
		if (protocol == ETH_P_IP) {
			if (bpf_skb_load_bytes(skb, offset, bytes, 1) || bpf_skb_load_bytes(skb, offset + 9, &next, 1))
				return 0;
			offset += (bytes[0] & 15) * 4;
		} else if (protocol == ETH_P_IPV6) {
			if (bpf_skb_load_bytes(skb, offset + 6, &next, 1))
				return 0;
			offset += sizeof(struct ipv6hdr);
			for (int i = 0; i < MAX_EXTENSIONS && is_extension(next); i++) {
				if (bpf_skb_load_bytes(skb, offset, bytes, 4))
					return 0;
				// RFC 2675: option type 0xc2, four bytes long, says a length above 64 kB. It is taken out of
				// each segment.
				if (next == IPPROTO_HOPOPTS && bytes[1] == 0 && bytes[2] == 0xc2)
					*jumbo += 8;
				next = bytes[0];
				offset += (bytes[1] + 1) * 8;
			}
		} else {
			return 0;
		}
		if (next == IPPROTO_TCP) {
			if (bpf_skb_load_bytes(skb, offset + 12, bytes, 1))
				return 0;
			return offset + (bytes[0] >> 4) * 4;
		}
		if (next == IPPROTO_IPIP) {
			protocol = ETH_P_IP;
		} else if (next == IPPROTO_IPV6) {
			protocol = ETH_P_IPV6;
		} else if (next == IPPROTO_GRE) {
			if (bpf_skb_load_bytes(skb, offset, bytes, 4))
				return 0;
			type = (bytes[2] << 8) | bytes[3];
			// Checksum, key and sequence number add four bytes each (RFC 2784, RFC 2890).
			offset += 4 + ((bytes[0] >> 7) + ((bytes[0] >> 5) & 1) + ((bytes[0] >> 4) & 1)) * 4;
			if (type == ETH_P_TEB) {
				if (bpf_skb_load_bytes(skb, offset + 12, &type, 2))
					return 0;
				type = bpf_ntohs(type);
				offset += ETH_HLEN;
			}
			protocol = type;
		} else if (next == IPPROTO_UDP) {
			if (bpf_skb_load_bytes(skb, offset + 2, &type, 2))
				return 0;
			type = bpf_ntohs(type);
			offset += sizeof(struct udphdr);
			if (type != PORT_VXLAN && type != PORT_GENEVE)
				return offset;
			if (bpf_skb_load_bytes(skb, offset, bytes, 1))
				return 0;
			offset += 8 + (type == PORT_GENEVE ? (bytes[0] & 0x3f) * 4 : 0);
			if (bpf_skb_load_bytes(skb, offset + 12, &type, 2))
				return 0;
			protocol = bpf_ntohs(type);
			offset += ETH_HLEN;
		} else {
			return 0;
		}
	}
	return 0;
}

static __always_inline struct cached_label *remembered(struct lane *lane, __u64 high, __u64 low, __u32 owner, int *known)
{
	__u64 mixed = (high ^ low) * 0x9e3779b97f4a7c15ull;
	struct cached_label *cached = &lane->cache[(mixed >> 40) & (CACHED - 1)];

	*known = cached->owner == owner && cached->address[0] == high && cached->address[1] == low;
	if (!*known) {
		cached->address[0] = high;
		cached->address[1] = low;
		cached->owner = owner;
	}
	return cached;
}

static __always_inline void remember(struct cached_label *cached, const struct label *label)
{
	cached->label.traffic_class = label ? label->traffic_class : CLASS_UNKNOWN;
	cached->label.peer = label ? label->peer : 0;
}

static __always_inline void parse4(struct __sk_buff *skb, struct lane *lane, __u32 offset, struct parsed *out)
{
	const __u32 table = lane->generation;
	struct cached_label *cached;
	const struct iphdr *ip;
	struct iphdr copy;
	__u32 address;
	int known;

	ip = header(skb, offset, sizeof(*ip), &copy);
	if (!ip)
		return;
	address = settings.at_host_port ? ip->daddr : ip->saddr;
	cached = remembered(lane, 0, address, table * 2 + 1, &known);
	if (!known) {
		struct key4 key = {.prefix_bits = 64, .half = table & 1};

		__builtin_memcpy(key.address, &address, sizeof(key.address));
		remember(cached, bpf_map_lookup_elem(&table4, &key));
	}
	out->traffic_class = cached->label.traffic_class;
	out->peer = cached->label.peer;
	if (!(ip->frag_off & bpf_htons(IP_OFFSET_MASK)))
		out->tunnelled = is_tunnel(skb, ip->protocol, offset + ip->ihl * 4);
	if (skb->gso_size)
		out->header_bytes = repeated_header_bytes(skb, offset, ETH_P_IP, &out->jumbo_bytes);
}

static __always_inline void parse6(struct __sk_buff *skb, struct lane *lane, __u32 offset, struct parsed *out)
{
	const __u32 table = lane->generation;
	struct cached_label *cached;
	const struct ipv6hdr *ip;
	struct ipv6hdr copy;
	__u64 address[2];
	__u8 type;
	int known;

	ip = header(skb, offset, sizeof(*ip), &copy);
	if (!ip)
		return;
	// Router and neighbour solicitation, advertisement and redirect: types 133 to 137; a hop limit of 255 shows
	// that no router passed it on (RFC 4861, section 3.1).
	if (ip->nexthdr == IPPROTO_ICMPV6 && ip->hop_limit == 255 &&
	    !bpf_skb_load_bytes(skb, offset + sizeof(*ip), &type, 1) && type >= 133 && type <= 137) {
		out->traffic_class = CLASS_L2_CONTROL;
		return;
	}
	__builtin_memcpy(address, settings.at_host_port ? &ip->daddr : &ip->saddr, sizeof(address));
	cached = remembered(lane, address[0], address[1], table * 2 + 2, &known);
	if (!known) {
		struct key6 key = {.prefix_bits = 160, .half = table & 1};

		__builtin_memcpy(key.address, address, sizeof(key.address));
		remember(cached, bpf_map_lookup_elem(&table6, &key));
	}
	out->traffic_class = cached->label.traffic_class;
	out->peer = cached->label.peer;
	out->tunnelled = is_tunnel(skb, ip->nexthdr, offset + sizeof(*ip));
	if (skb->gso_size)
		out->header_bytes = repeated_header_bytes(skb, offset, ETH_P_IPV6, &out->jumbo_bytes);
}

static __always_inline void parse(struct __sk_buff *skb, struct lane *lane, struct parsed *out)
{
	__u32 offset = sizeof(struct ethhdr);
	__be16 protocol = skb->protocol;
	const struct tag *tag;
	struct tag copy;

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
		parse4(skb, lane, offset, out);
	else if (protocol == bpf_htons(ETH_P_IPV6))
		parse6(skb, lane, offset, out);
	else if (protocol == bpf_htons(ETH_P_ARP) || protocol == bpf_htons(ETH_P_LLDP_))
		out->traffic_class = CLASS_L2_CONTROL;
	else
		out->traffic_class = CLASS_NON_IP;
}

// 1. Frame bytes: raw as handed over, wire with the headers of every segment.
// 2. A frame of a new bucket opens the bucket's slot with the totals as they stand before it.
// 3. Totals of this CPU grow, and stand in the slot as the bucket's newest.
// 4. Totals of the traffic class and of the peer node grow.
// 5. What is more than an order allows is dropped.
SEC("classifier")
int weighbridge_meter(struct __sk_buff *skb)
{
	struct parsed parsed = {.traffic_class = CLASS_UNKNOWN};
	__u32 cpu = bpf_get_smp_processor_id(), segments = 1, tag_bytes = 0, payload, key;
	struct class_totals *by_class;
	struct peer_totals *by_peer;
	__u64 raw, wire, now_ns;
	struct bucket *slot;
	struct lane *lane;

	lane = bpf_map_lookup_elem(&lanes, &cpu);
	if (!lane)
		return TC_ACT_UNSPEC;

	if (skb->vlan_present) {
		tag_bytes = VLAN_TAG_BYTES;
		parsed.tagged = 1;
	}
	parse(skb, lane, &parsed);
	raw = wire = skb->len + tag_bytes;
	if (skb->gso_size) {
		segments = skb->gso_segs;
		payload = skb->len - parsed.header_bytes;
		if (!segments) // handed in by a virtual machine or a raw socket, which do not count them
			segments = (payload + skb->gso_size - 1) / skb->gso_size;
		if (!segments)
			segments = 1;
		wire += (__u64)(segments - 1) * (parsed.header_bytes + tag_bytes) - (__u64)segments * parsed.jumbo_bytes;
	}

	now_ns = bpf_ktime_get_ns();
	if (now_ns >= lane->ends_ns) {
		lane->index = now_ns / settings.width_ns;
		lane->ends_ns = (lane->index + 1) * settings.width_ns;
	}
	key = cpu * settings.slots + (lane->index & (settings.slots - 1));
	slot = bpf_map_lookup_elem(&ring, &key);
	if (slot && slot->index != lane->index) {
		slot->before = lane->all;
		slot->index = lane->index;
	}
	lane->all.raw_bytes += raw;
	lane->all.wire_bytes += wire;
	lane->all.segments += segments;
	lane->packets += 1;
	if (slot)
		slot->after = lane->all;

	by_class = &lane->by_class[parsed.traffic_class & (CLASSES - 1)];
	by_class->raw_bytes += raw;
	by_class->wire_bytes += wire;
	by_class->segments += segments;
	if (parsed.tagged)
		by_class->tagged_segments += segments;
	if (parsed.tunnelled)
		by_class->tunnelled_bytes += wire;
	if (parsed.peer && parsed.peer < settings.peers) {
		key = cpu * settings.peers + parsed.peer;
		by_peer = bpf_map_lookup_elem(&peer_totals, &key);
		if (by_peer) {
			by_peer->wire_bytes += wire;
			by_peer->segments += segments;
		}
	}
	return admit(skb, parsed.traffic_class, wire, segments, now_ns) ? TC_ACT_UNSPEC : TC_ACT_SHOT;
}

// At a port's egress, where limits are in force: a frame that came in by an interface nobody has looked at yet (a port
// that was made anew has a new number) is dropped. What the DPU itself sends came in nowhere.
SEC("classifier")
int weighbridge_gate(struct __sk_buff *skb)
{
	__u32 from = skb->ingress_ifindex, none = 0;
	__u64 *refused;

	if (!from || bpf_map_lookup_elem(&entered, &from))
		return TC_ACT_UNSPEC;
	refused = bpf_map_lookup_elem(&entered, &none);
	if (refused)
		__sync_fetch_and_add(refused, 1);
	return TC_ACT_SHOT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
