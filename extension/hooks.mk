# What hooks are made of: the files of src/ that know libc and core only, but for the
# import table.  Tests and benches that need no server link them, the library does.
HOOK_FILES = hooks reads verify scans announce changes names files paths advice \
	account account_writes account_relations account_source account_sums \
	library_calls libraries objects
# Of their own until glibc 2.34.
HOOK_LIBRARIES = -ldl -lrt
