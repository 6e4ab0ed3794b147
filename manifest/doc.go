// Package manifest keeps files as they are: it lists them with sizes and digests,
// and says years later which of them have changed.
//
//	Make      a list of files in the format of sha256sum, with their sizes
//	MakeBag   a directory of them in the format of BagIt (RFC 8493)
//	Verify    what is no longer as one of the two says
//
// A list or bag may come from a stranger: no name in it leads out of its
// directory.
package manifest
