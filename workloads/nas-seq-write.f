# Sequential write of the study of virtualised NAS (WIOV '11, §3.2, figures 6 and 7, table 4): one thread writes a file of 4 GB, 2 KB to 4 MB at
# once. With $initial=4g the file is there before, and its blocks are overwritten ("allocated" in table 4).

set $dir=/tmp
set $filesize=4g
set $initial=0
set $iosize=2k
set $last=$filesize - 1

set mode quit firstdone

define file name=bigfile,path=$dir,size=$initial,prealloc

define process name=writer
{
  thread name=writer
  {
    flowop write name=write,filename=bigfile,iosize=$iosize
    flowop finishonbytes name=all-written,value=$last,target=write
  }
}

run
