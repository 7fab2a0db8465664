package caddymodule

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// block reads one block of options and remembers where each stands, so that
// mistakes found later can be told with file and line.
type block struct {
	*caddyfile.Dispenser
	prefix string // of the options' names, with a dot
	scope  string // of the options' places; parts blocks of the same name
	at     map[string]caddyfile.Token
}

func newBlock(d *caddyfile.Dispenser) *block {
	return &block{Dispenser: d, at: map[string]caddyfile.Token{"": d.Token()}}
}

// each calls f with every name in the block that follows.
func (b *block) each(f func(name string) error) error {
	for nesting := b.Nesting(); b.NextBlock(nesting); {
		if err := f(b.Val()); err != nil {
			return err
		}
	}
	return nil
}

// inner returns the reader for the block inside an option.
func (b *block) inner(option string) *block {
	return &block{Dispenser: b.Dispenser, prefix: option + ".", scope: b.scope, at: b.at}
}

// once notes an option and refuses one that stands twice.
func (b *block) once(name string, repeatable bool) error {
	name = b.prefix + name
	if before, ok := b.at[b.scope+name]; ok && !repeatable {
		return b.Errf("%s stands twice, first at line %d", name, before.Line)
	}
	b.at[b.scope+name] = b.Token()
	return nil
}

func (b *block) unrecognized(what, name string, allowed []string) error {
	if name == "{" {
		return b.Errf("unexpected block: the option before it takes none")
	}
	slices.Sort(allowed)
	where := ""
	if b.prefix != "" {
		where = " of " + strings.TrimSuffix(b.prefix, ".")
	}
	return b.Errf("unrecognized %s %q%s, allowed: %s", what, name, where, strings.Join(allowed, ", "))
}

// locate adds file and line to the first mistake of a check.
func (b *block) locate(err error) error {
	first := firstOption(err)
	if first == nil {
		return err
	}
	token, ok := b.at[first.scope+first.Option]
	if !ok {
		outer, _, _ := strings.Cut(first.Option, ".")
		if token, ok = b.at[first.scope+outer]; !ok {
			token = b.at[""]
		}
	}
	d := caddyfile.NewDispenser([]caddyfile.Token{token})
	d.Next()
	return d.WrapErr(first)
}

// one reads the only argument of an option.
func (b *block) one() (string, error) {
	name := b.prefix + b.Val()
	args := b.RemainingArgs()
	if len(args) != 1 || args[0] == "" {
		return "", b.Errf("%s takes one argument, found %d", name, len(args))
	}
	return args[0], nil
}

// text parses an option that is one word. What it may be is checked later, by
// the rules that JSON is held to as well.
func text[T any](field func(T) *string) func(T, *block) error {
	return func(t T, b *block) (err error) {
		*field(t), err = b.one()
		return err
	}
}

// list parses an option that is one or more words.
func list[T any](field func(T) *[]string) func(T, *block) error {
	return func(t T, b *block) error {
		name := b.prefix + b.Val()
		args := b.RemainingArgs()
		if len(args) == 0 {
			return b.Errf("%s takes one or more arguments, found none", name)
		}
		*field(t) = append(*field(t), args...)
		return nil
	}
}

const durationAllowed = "a duration above 0 with its unit, such as 30s, 15m or 4h"

// duration parses an option that is a duration above 0.
func duration[T any](field func(T) *caddy.Duration) func(T, *block) error {
	return func(t T, b *block) error {
		name := b.prefix + b.Val()
		text, err := b.one()
		if err != nil {
			return err
		}
		d, err := caddy.ParseDuration(text)
		if err != nil || d <= 0 {
			return b.WrapErr(wrong(name, text, durationAllowed))
		}
		*field(t) = caddy.Duration(d)
		return nil
	}
}

// offDuration parses an option that is a duration or off.
func offDuration[T any](field func(T) **caddy.Duration) func(T, *block) error {
	return func(t T, b *block) error {
		d, err := b.durationOrOff()
		*field(t) = &d
		return err
	}
}

// durationOrOff reads the only argument of an option; off is 0.
func (b *block) durationOrOff() (caddy.Duration, error) {
	name := b.prefix + b.Val()
	text, err := b.one()
	if err != nil || text == "off" || text == "0" {
		return 0, err
	}
	d, err := caddy.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, b.WrapErr(wrong(name, text, durationAllowed+", or off"))
	}
	return caddy.Duration(d), nil
}

// number parses an option that is a number of at least least.
func number[T any](least int, field func(T) *int) func(T, *block) error {
	return func(t T, b *block) error {
		name := b.prefix + b.Val()
		text, err := b.one()
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < least {
			return b.WrapErr(wrong(name, text, "a number, "+strconv.Itoa(least)+" or more"))
		}
		*field(t) = n
		return nil
	}
}

// size parses an option that is a size above 0.
func size[T any](field func(T) *Size) func(T, *block) error {
	return func(t T, b *block) error {
		name := b.prefix + b.Val()
		text, err := b.one()
		if err != nil {
			return err
		}
		n, err := parseSize(text)
		if err != nil || n == 0 {
			return b.WrapErr(wrong(name, text, "a size above 0, such as 64KiB or 8MiB"))
		}
		*field(t) = n
		return nil
	}
}

// bare parses an option without arguments.
func bare[T any](field func(T) *bool) func(T, *block) error {
	return func(t T, b *block) error {
		name := b.prefix + b.Val()
		if b.NextArg() {
			return b.Errf("%s takes no argument, found %q", name, b.Val())
		}
		*field(t) = true
		return nil
	}
}
