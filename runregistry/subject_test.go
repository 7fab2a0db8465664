package runregistry

import "testing"

// No part of a subject may leak into its neighbour.
func TestSubjectsThatDifferHaveDifferentKeys(t *testing.T) {
	subjects := []Subject{
		{},
		{Realm: "a"},
		{Tenant: "a"},
		{Issuer: "a"},
		{Sub: "a"},
		{Realm: "a", Tenant: "b"},
		{Realm: "ab"},
		{Realm: "a", Sub: "b"},
		{Issuer: "a", Sub: "b"},
		{Realm: "1:a"},
		{Realm: "1", Tenant: "a"},
		{Realm: "a1:b"},
		{Realm: "", Tenant: "1:a1:b"},
		{Issuer: "a", Sub: "1:b"},
		{Issuer: "a1:b"},
		{Sub: "0:"},
		{Sub: "\x00"},
		{Issuer: "\x00"},
	}
	seen := make(map[string]Subject)
	for _, s := range subjects {
		for _, key := range []string{s.Key(), string(SubjectScope(s))} {
			if other, ok := seen[key]; ok {
				t.Errorf("%+v and %+v share key %q", s, other, key)
			}
			seen[key] = s
		}
	}
}

func TestTenantScopeIsSharedByItsSubjectsOnly(t *testing.T) {
	a := Subject{Realm: "r", Tenant: "t", Issuer: "i", Sub: "a"}
	b := Subject{Realm: "r", Tenant: "t", Issuer: "j", Sub: "b"}
	if TenantScope(a) != TenantScope(b) {
		t.Error("got two scopes for one tenant")
	}
	for _, other := range []Subject{{Realm: "r", Tenant: "u"}, {Realm: "s", Tenant: "t"}, {Realm: "rt"}} {
		if TenantScope(a) == TenantScope(other) {
			t.Errorf("got one scope for %+v and %+v", a, other)
		}
	}
	// Not even a subject that imitates the key of a tenant.
	if Scope("t"+Subject{Realm: "r"}.Key()) == TenantScope(Subject{Realm: "r"}) {
		t.Error("got a tenant's scope from a subject's key")
	}
	if SubjectScope(Subject{}) == TenantScope(Subject{}) {
		t.Error("got one scope for a subject and a tenant")
	}
}

func TestDigestsKnowWhetherTheyAreAbsent(t *testing.T) {
	if !(Digest{}).IsZero() || (Digest{31: 1}).IsZero() {
		t.Error("got a digest wrong about being absent")
	}
	if got, want := (Digest{0: 0xfb, 1: 0xff}).String(), "-_8AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
