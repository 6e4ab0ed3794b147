package manifest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// The parts of a bag (RFC 8493 §2).
const (
	bagDeclaration = "bagit.txt"
	bagInfo        = "bag-info.txt"
	bagFetch       = "fetch.txt"
	bagPayload     = "data"
	payloadList    = "manifest-sha256.txt"
	tagList        = "tagmanifest-sha256.txt"
)

const declaration = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"

// A Field is a line of bag-info.txt.
type Field struct {
	Label, Value string
}

// BagOptions say what goes into a bag, besides the files.
type BagOptions struct {
	Options
	Date     time.Time // Bagging-Date; default: today
	Software string    // Bag-Software-Agent; left out when empty
	Fields   []Field   // more of bag-info.txt (RFC 8493 §2.2.2)
}

// MakeBag makes a bag at dir, which must not exist. A file becomes one of the
// same name in its payload, a directory becomes what is in it, less what [Make]
// would leave out. Files are not copied but linked, unless they are on another
// file system, or working files that paths names: those are written to in place.
// On error there is no bag.
func MakeBag(ctx context.Context, dir string, paths []string, opts BagOptions) (err error) {
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s exists: a bag needs a new directory", dir)
	}
	tmp := filepath.Clean(dir) + ".tmp-" + rand.Text()[:8]
	if err := os.MkdirAll(filepath.Join(tmp, bagPayload), 0o777); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(tmp)
		}
	}()
	for _, path := range paths {
		if err := placePath(ctx, path, tmp, paths, &opts.Options); err != nil {
			return err
		}
	}
	opts.everything = true
	list, err := Make(ctx, tmp, []string{filepath.Join(tmp, bagPayload)}, nil, opts.Options)
	if err != nil {
		return err
	}
	if err := writeTags(ctx, tmp, list, opts); err != nil {
		return err
	}
	if err := syncTree(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return err
	}
	return syncDir(filepath.Dir(filepath.Clean(dir)))
}

// syncTree brings the names in a directory and in those below it to the disk.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return syncDir(name)
	})
}

// placePath puts a file, or the files of a directory, into the payload of the bag
// that is made at tmp. That itself is no part of what it holds. What named has is
// not left out.
func placePath(ctx context.Context, path, tmp string, named []string, opts *Options) error {
	payload := filepath.Join(tmp, bagPayload)
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	made, err := os.Stat(tmp)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		to := filepath.Join(payload, filepath.Base(path))
		fsys, base := os.DirFS(filepath.Dir(path)), filepath.Base(path)
		switch {
		case isUnfinished(filepath.ToSlash(path)):
			return errUnfinished(path)
		case omitted(fsys, base, fs.FileInfoToDirEntry(info)) != "":
			return place(ctx, path, to, false)
		}
		return place(ctx, path, to, true)
	}
	fsys := os.DirFS(path)
	return filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if here, err := d.Info(); err == nil && os.SameFile(here, made) {
				return filepath.SkipDir
			}
		}
		rel, err := filepath.Rel(path, name)
		if err != nil {
			return err
		}
		if why := omitted(fsys, filepath.ToSlash(rel), d); why != "" && rel != "." {
			if !slices.ContainsFunc(named, func(other string) bool { return filepath.Clean(other) == filepath.Clean(name) }) {
				opts.leftOut(name, why)
			}
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil // one that is named has its turn
		}
		if d.IsDir() {
			return nil
		}
		return place(ctx, name, filepath.Join(payload, rel), true)
	})
}

// place links a file to a new name, or copies it where it may not or cannot be
// linked.
func place(ctx context.Context, from, to string, link bool) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", from)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	err = fs.ErrInvalid
	if link {
		err = os.Link(from, to)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = copyFile(ctx, from, to)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: another file has this name in the bag", from)
	}
	return err
}

// copyFile copies a file with its permissions: what others may not read, they may
// not read in the bag.
func copyFile(ctx context.Context, from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, reader{ctx, in})
	return errors.Join(err, out.Sync(), out.Close())
}

// A reader ends with its context.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// writeTags writes what is in a bag besides its payload.
func writeTags(ctx context.Context, dir string, list *List, opts BagOptions) error {
	octets := int64(0)
	var lines []byte
	for _, e := range list.Entries {
		octets += e.Size
		lines = appendBagLine(lines, e)
	}
	if opts.Date.IsZero() {
		opts.Date = time.Now()
	}
	fields := append(slices.Clone(opts.Fields),
		Field{"Bagging-Date", opts.Date.Format(time.DateOnly)},
		Field{"Payload-Oxum", fmt.Sprintf("%d.%d", octets, len(list.Entries))})
	if opts.Software != "" {
		fields = append(fields, Field{"Bag-Software-Agent", opts.Software})
	}
	var info []byte
	for _, f := range fields {
		info = append(info, f.Label+": "+f.Value+"\n"...)
	}
	for name, content := range map[string][]byte{bagDeclaration: []byte(declaration), bagInfo: info, payloadList: lines} {
		if err := writeFile(filepath.Join(dir, name), content); err != nil {
			return err
		}
	}
	opts.Started, opts.Progress = nil, nil
	tags, err := Make(ctx, dir, []string{filepath.Join(dir, bagInfo), filepath.Join(dir, bagDeclaration), filepath.Join(dir, payloadList)}, nil, opts.Options)
	if err != nil {
		return err
	}
	lines = nil
	for _, e := range tags.Entries {
		lines = appendBagLine(lines, e)
	}
	return writeFile(filepath.Join(dir, tagList), lines)
}

// What would break the lines is encoded (RFC 8493 §2.1.3).
var (
	bagEscaper   = strings.NewReplacer("%", "%25", "\n", "%0A", "\r", "%0D")
	bagUnescaper = strings.NewReplacer("%25", "%", "%0A", "\n", "%0a", "\n", "%0D", "\r", "%0d", "\r")
)

func appendBagLine(b []byte, e Entry) []byte {
	b = hex.AppendEncode(b, e.Sums[0].Digest)
	return append(b, "  "+bagEscaper.Replace(e.Name)+"\n"...)
}

func writeFile(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDir brings the names in a directory to the disk. On Windows there is
// nothing to call.
func syncDir(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
