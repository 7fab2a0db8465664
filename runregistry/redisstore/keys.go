package redisstore

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// keyspace names every key and channel. All keys of one partition share its
// hash tag; subjects, conversations and idempotency keys appear hashed only.
type keyspace struct{ prefix string }

// part opens every key of a partition.
func (k keyspace) part(p runregistry.Partition) string {
	return fmt.Sprintf("%s{p%02d}:", k.prefix, p)
}

// of is the key of one run for one purpose.
func (k keyspace) of(kind string, id runregistry.RunID) string {
	return k.part(id.Partition()) + kind + ":" + string(id)
}

func (k keyspace) run(id runregistry.RunID) string     { return k.of("r", id) } // hash
func (k keyspace) frames(id runregistry.RunID) string  { return k.of("f", id) } // stream
func (k keyspace) readers(id runregistry.RunID) string { return k.of("v", id) } // hash, by instance

// channel carries what happens to one run.
func (k keyspace) channel(id runregistry.RunID) string { return k.of("n", id) }

// owner is the channel of one instance: runs that it shall look at. It is in no
// partition.
func (k keyspace) owner(by runregistry.InstanceID) string { return k.owners() + string(by) }
func (k keyspace) owners() string                         { return k.prefix + "i:" }

// secret is a string: what all instances sign with. It is in no partition.
func (k keyspace) secret(name string) string { return k.prefix + "secret:" + name }

// leases is a sorted set: active runs of a partition by the deadline of their
// lease.
func (k keyspace) leases(p runregistry.Partition) string { return k.part(p) + "x" }

// mark is a string: what an instance left with its last look at the leases.
func (k keyspace) mark(p runregistry.Partition, by runregistry.InstanceID) string {
	return k.part(p) + "b:" + string(by)
}

// op remembers an operation that must not be counted twice.
func (k keyspace) op(p runregistry.Partition, token string) string {
	return k.part(p) + "o:" + token
}

// deleted marks for a while that a run was deleted, and not lost.
func (k keyspace) deleted(id runregistry.RunID) string {
	return k.part(id.Partition()) + "z:" + string(id)
}

// note is a string: what [Store.Note] was told under a name.
func (k keyspace) note(id runregistry.RunID, name runregistry.Digest) string {
	return k.of("y", id) + ":" + hashed(string(name[:]))
}

// active is a sorted set: the runs that count in a subject's limit.
func (k keyspace) active(p runregistry.Partition, s runregistry.Subject) string {
	return k.part(p) + "s:" + hashed(s.Key())
}

// guests is a sorted set by time: runs in other partitions that count in the
// limit of a subject too.
func (k keyspace) guests(p runregistry.Partition, s runregistry.Subject) string {
	return k.part(p) + "g:" + hashed(s.Key())
}

// list and listed are an index: the runs of a subject.
func (k keyspace) list(p runregistry.Partition, s runregistry.Subject) string {
	return k.part(p) + "l:" + hashed(s.Key())
}

func (k keyspace) listed(p runregistry.Partition, s runregistry.Subject) string {
	return k.part(p) + "lt:" + hashed(s.Key())
}

// claim is a string: the run that has an idempotency key, or "!" for one that
// was deleted.
func (k keyspace) claim(p runregistry.Partition, s runregistry.Subject, route string, d runregistry.Digest) string {
	return k.part(p) + "k:" + hashed(s.Key(), route, string(d[:]))
}

// echoes is a sorted set by order: the runs that a request without a key may
// repeat.
func (k keyspace) echoes(p runregistry.Partition, s runregistry.Subject, route string, d runregistry.Digest) string {
	return k.part(p) + "e:" + hashed(s.Key(), route, string(d[:]))
}

// name is a sorted set: who carries a name of a conversation.
func (k keyspace) name(p runregistry.Partition, s runregistry.Scope, c runregistry.ConversationID) string {
	return k.part(p) + "c:" + hashed(string(s), string(c))
}

// holders is a sorted set by order: the active runs that a conversation is
// about.
func (k keyspace) holders(p runregistry.Partition, dialogue string) string {
	return k.part(p) + "h:" + dialogue
}

// dialogue and dialogued are an index: the runs of a conversation under all
// its names.
func (k keyspace) dialogue(p runregistry.Partition, dialogue string) string {
	return k.part(p) + "d:" + dialogue
}

func (k keyspace) dialogued(p runregistry.Partition, dialogue string) string {
	return k.part(p) + "dt:" + dialogue
}

// upstream is a string: the run that has upstream's id.
func (k keyspace) upstream(p runregistry.Partition, s runregistry.Scope, id string) string {
	return k.part(p) + "u:" + hashed(string(s), id)
}

// hashed is a short name for parts of any size: 128 bits of SHA-256.
func hashed(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(strconv.Itoa(len(p)))
		b.WriteByte(':')
		b.WriteString(p)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// partition of a scope: where all its runs and claims are.
func partition(s runregistry.Scope) runregistry.Partition {
	return runregistry.PartitionOf(string(s))
}

// newDialogue names the conversation that a run opens.
func newDialogue(id runregistry.RunID) string { return string(id[len(id)-16:]) }
