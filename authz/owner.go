package authz

// Owns reports whether what owner started belongs to caller: all parts of the
// subject are the same. Nobody owns nothing: it is false for the zero subject,
// even compared with itself.
func Owns(caller, owner Subject) bool {
	return caller != Subject{} && caller == owner
}
