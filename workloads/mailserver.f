# Mail server of the nested-file-system study (FAST '12, table 3): 50 000 files of 8 to 16 KB in a single directory, 16 threads,
# operations of 16 KB. As in Filebench's varmail, what was written is synced before the file is closed.

set $dir=/tmp
set $nfiles=50000
set $nthreads=16
set $filesize=cvar(type=cvar-uniform,parameters=lower:8192;upper:16384)
set $iosize=16k
set $dirwidth=1000000
set $runtime=60

define fileset name=mailserver,path=$dir,entries=$nfiles,size=$filesize,dirwidth=$dirwidth,prealloc=80,paralloc

define process name=mailserver
{
  thread name=mailbox,instances=$nthreads
  {
    flowop deletefile name=delete,filesetname=mailserver
    flowop createfile name=create,filesetname=mailserver,fd=1
    flowop appendfilerand name=deliver,fd=1,iosize=$iosize
    flowop fsync name=sync-delivered,fd=1
    flowop closefile name=close-delivered,fd=1
    flowop openfile name=open-to-answer,filesetname=mailserver,fd=1
    flowop readwholefile name=read-to-answer,fd=1,iosize=$iosize
    flowop appendfilerand name=answer,fd=1,iosize=$iosize
    flowop fsync name=sync-answered,fd=1
    flowop closefile name=close-answered,fd=1
    flowop openfile name=open-to-read,filesetname=mailserver,fd=1
    flowop readwholefile name=read,fd=1,iosize=$iosize
    flowop closefile name=close-read,fd=1
  }
}

run $runtime
